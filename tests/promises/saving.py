"""Promises about what is on disk, and what is said of it."""

PROMISES = {
    "saving:at-once": "An edit that follows a pause is on disk when it is answered, and the answer says so.",
    "saving:steady": "Steady edits are on disk about a second after they were made, while they go on; what is not on disk is not said to be.",
    "saving:overtaken": "Edits without any pause, each of which makes Jupyter begin its save anew, are saved all the same.",
    "saving:in-line": "An edit behind a save that Jupyter is slow to make waits for it, and is not said to be unanswered.",
    "saving:read-only": "An edit of a read-only file says so as the reason, and is saved by itself once the file is writable.",
    "saving:full": "On a full disk edits and runs say so as the reason, get_nb_stat too; with room again the file is written without another edit.",
    "saving:run": "The answer of a run says whether its outputs are on disk.",
    "saving:run:death": "A run whose Jupyter was killed ends within seconds and says so, and says nothing false of its cell.",
    "saving:frozen": "When Jupyter is frozen, a call about a document that is open says so within seconds.",
    "saving:death": "When Jupyter is killed under steady edits, none that was said to be saved is missing; those that are missing are named once, and can be made again.",
    "saving:death:text": "Edits of a text document that a killed Jupyter lost are shown once, as a diff.",
    "saving:lost": "Lost inserts, changes, moves and removals are made again as they were; what is there already is not touched.",
    "saving:foreign:merged": "What another program writes into the file of an open room is told, and is merged with the next edit.",
    "saving:foreign:refused": "An edit that Jupyter drops because another program wrote the file is refused, named, and can be made again.",
}
