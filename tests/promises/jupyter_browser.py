"""Promises that only a person in a browser can see."""

PROMISES = {
    "browser:together": "A person types in JupyterLab while the agent edits the same cell and runs another: nothing is lost, output appears while it runs, the agent's name is at its cursor, and undo takes back only one's own.",
    "browser:same-variables": "JupyterLab opened after the agent started the kernel works with the same variables.",
}
