"""Promises about the page that only a browser can keep or break."""

PROMISES = {
    "web:page:small": "The page is at most 105 KB in all, asks nobody else for anything, and has no way to make markup of text.",
    "web:page:contrast": "Every colour of text is AA on every ground it stands on, in the light and in the dark scheme.",
    "web:page:token": "The token in the link's fragment is exchanged once, is gone from the address and the history at once, and is kept nowhere a script can read.",
    "web:page:live": "What an agent writes and runs appears in the open page by itself, half of the time within 200 ms of its acknowledgement, with the call, its time and its tokens; what runs can be cancelled there.",
    "web:page:hostile": "Of a corpus of more than 40 attacks in every kind of output, in text cells and in names no script runs, no request leaves, no policy is violated, and the page stays usable.",
    "web:page:keys": "Everything can be reached by keyboard: search, entries, cells, copying an id, the link of a cell, help.",
    "web:page:narrow": "At a phone's width and at 200 % zoom nothing scrolls sideways but code, every column can be reached, and nothing moves for those who want no motion.",
    "web:page:large": "A notebook of 1,000 cells opens at a cell in the middle, and no frame of scrolling through it costs 100 ms of the page's time.",
    "web:page:again": "After the server was restarted the page says so, lets a person in again, and shows what changed meanwhile without being loaded anew.",
    "web:page:prose": "Markdown is shown as what it means, and a hostile text cannot make its rendering slow.",
}
