"""What attempts to break the notebook and document tools and the Jupyter extension found, and what must hold since."""

PROMISES = {
    "breaking:source:hidden": "Code that a terminal would write over or swallow is seen in every tool that shows a cell's source.",
    "breaking:names:not-utf8": "A file whose name is not UTF-8 hides no other file: folders that have one are listed.",
    "breaking:create:content": "Content that is no notebook, however deep or odd, is refused as the caller's mistake and makes no file.",
    "breaking:create:below-file": "Nothing is created below a file, and the file is named as what stands in the way.",
    "breaking:proposals:same": "The id that an edit gives is the id of an open proposal, also where the edit changes nothing.",
    "breaking:proposals:renamed": "A proposal goes with its notebook when that, or a folder above it, is renamed.",
    "breaking:proposals:no-notebook": "A proposal whose notebook is gone says so, and how to go on.",
    "breaking:extension:closing": "A refusal that ends the connection says that it does, so that no client sends its next request into it.",
    "breaking:extension:proposals": "Proposals work inside Jupyter also where no token is good for the server itself, and are kept apart by person.",
    "breaking:extension:too-large": "A body of unknown length that is too large is refused as too large on every route.",
}
