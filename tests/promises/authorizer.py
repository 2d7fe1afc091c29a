"""What cellwright inside Jupyter Server promises to Jupyter's authorizer."""

PROMISES = {
    "authorizer:matrix": "Inside Jupyter each tool is refused, and does nothing, without any single leave (action and resource) that it needs.",
    "authorizer:needed-suffices": "Inside Jupyter each tool works with just the leaves that it needs.",
    "authorizer:port": "Leave is asked for where Jupyter is reached: each method of the port is named with what it needs, or cannot be called.",
    "authorizer:sessions-stay": "Who may move or delete files and may not touch sessions moves and ends no session, and is told so.",
    "authorizer:sessions-hidden": "Who may not read sessions or kernel kinds sees none in answers about notebooks and the workspace, and is told so.",
}
