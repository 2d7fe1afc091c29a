"""Promises about lists of files on a Jupyter server far away."""

PROMISES = {
    "remote:list:pages": "Further pages of a long list come from a snapshot: nothing is asked of the server for them.",
    "remote:list:age": "A list that is not of this moment says how old it is; refresh asks the server, and so does age, at last by itself.",
    "remote:list:own": "What is created, copied, renamed or deleted through us is right in the list at once, also while a walk goes on.",
    "remote:list:bounded": "A walk asks for at most eight folders at once, goes so deep and so far and no further, and says what it left out.",
    "remote:list:small": "A short list is asked for each time and is never old.",
}
