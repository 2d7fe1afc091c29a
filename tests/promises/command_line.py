"""What the command line promises to people, beyond doing its work."""

PROMISES = {
    "cli:ends-beside-work": "A command whose work is done ends with its own status, whatever a thread in the background is still at.",
    "cli:waiting": "The bare command in a terminal says that it waits for a client, and what to do instead.",
    "cli:version": "-V and --version print the version; `help` and `help COMMAND` print what --help prints.",
    "cli:token-names": "Two tokens cannot get the same name; where two have one, revoking by it names the ids.",
    "cli:status-json": "`status --json` gives numbers as numbers.",
    "cli:backup-folder": "`backup` into a folder that does not exist is refused and makes none.",
    "cli:show-before-init": "`show` before `init` says that nothing is known yet, and what to run.",
    "cli:reader-left": "A reader that has seen enough, as `head`, ends a command without a word on stderr; so does a closed stdout.",
    "cli:list": "`list` shows every pad and thinking notebook of a caller, with the addresses that `export` takes, last changed first.",
    "cli:required": "A command that lacks an argument names its own help.",
    "cli:unknown-flag": "A flag that a command does not know is refused in the command's name, with its help and its nearest flag, never another command's.",
    "cli:lab-quiet": "`lab` prints what a person needs and no log lines.",
}
