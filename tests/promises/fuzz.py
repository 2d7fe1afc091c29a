"""Promises about arguments that nobody foresaw."""

PROMISES = {
    "fuzz:answers": "Whatever is sent as arguments to any tool, prompt, resource or completion, in either era, is answered in the protocol's words: never INTERNAL_ERROR, never a status that is not documented.",
    "fuzz:no-hang": "No argument makes a call take longer than 5 seconds, unless it asks for that, or keeps the server from answering others.",
    "fuzz:no-death": "No argument ends the server or Jupyter, leaves a traceback in the log, fills the memory, or writes a file outside the workspace.",
    "fuzz:kernel-changes": "Calls that start, restart, switch or end the kernel of one notebook at the same moment are carried out one after the other: none fails because of the others, and the notebook can be run afterwards.",
    "fuzz:not-shared": "A whole number of more than 64 bits, or half of a character pair, is refused wherever it would go into a notebook, which stays as it was; a file that holds one cannot be opened, and the answer says why. In outputs such a number is kept as near as the notebook can hold it.",
    "fuzz:below-a-file": "A path that leads through a file names nothing: NOT_FOUND, not a failure of Jupyter that is worth another try.",
    "fuzz:brackets": "Brackets in what is recorded are text: whatever was recorded, project.yaml can be read and changed. Lists that are really nested too deep are refused before they are parsed.",
}
