"""What the package promises to whoever installs it."""

PROMISES = {
    "package:plain": "From the built wheel in an empty environment, with nothing else, a client over stdio creates a notebook in a new folder, runs 1+1 and sees 2.",
    "package:uvx": "`uv tool run` from the built wheel does the same.",
    "package:size": "The plain installation takes at most 340 MB, bytecode included.",
    "package:running": "What `make run` installs, JupyterLab included, takes at most 350 MB and no tool of the developers.",
    "package:pythons": "The pinned versions can be installed with Python 3.11.2, 3.12 and 3.13, and every package that is installed is pinned.",
    "package:ways": "The command that adds a part or mends an installation fits the way it was made: uvx, uv tool, pipx, conda, an environment with or without pip, Python itself.",
    "package:incomplete": "Where a part of every installation is missing, doctor fails and names the command, and workspace_status says so.",
    "package:lab-missing": "Who asks for JupyterLab where it is not installed is told the command that brings it.",
}
