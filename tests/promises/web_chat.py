"""Promises about the notebook view inside chats (MCP Apps)."""

PROMISES = {
    "chat:offered": "A client that shows views is told of the notebook view by the tools that have one and can read it, in both eras; no other view is there.",
    "chat:fallback": "A client that does not show views sees nothing of them, and gets the same results word for word.",
    "chat:alone": "The view is one small document that names nothing outside of itself and has no way to make markup of text.",
    "chat:run": "A run is shown in its notebook: text, pictures and errors, the cells that ran marked and in sight; what still runs is followed to its end.",
    "chat:refresh": "Refresh shows what was changed meanwhile.",
    "chat:whole": "A notebook of many pages and pictures is shown whole, and scrolls in its own frame instead of filling the chat.",
    "chat:host": "The view takes the host's theme and room, asks it to open links and to show it larger, answers it, and tells its own size.",
    "chat:no-tools": "Where the host calls no tools for views, the view shows what the result holds and asks for nothing.",
    "chat:failure": "What failed is said in a sentence.",
    "chat:hostile": "Of the attacks in every kind of output no script runs, no request leaves and no policy is violated in the view.",
}
