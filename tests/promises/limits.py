"""Promises about limits: ordinary work is never refused, and what is refused is told in words."""

PROMISES = {
    "limits:fifty": "Fifty clients with one token and the default settings connect, keep their streams open, read, edit and run at once: "
    "nothing is refused, wrong or lost.",
    "limits:first-opens": "Fifty notebooks that are opened at once, right after the start, are all opened: Jupyter makes the store of its "
    "documents with the first.",
    "limits:wait": "A request over a limit waits for its turn; only one that waited in vain is refused.",
    "limits:words": "A refusal reaches the caller of the official client in words that say what to do, in both eras, and nothing hangs.",
    "limits:fair": "Callers do not wait for each other, and the clients of one caller take turns.",
    "limits:bounded": "What waits is bounded in number and in bytes; who leaves is taken out of the line at once.",
    "limits:streams": "Streams and long calls are counted apart from requests and have a bound of their own, told in words.",
    "limits:rate": "Without a setting there is no rate on loopback and one on any other address, also inside Jupyter.",
    "limits:health": "/health answers also when there are as many connections as can be served, and silent ones make room.",
    "log:words": "The log masks what may be a token and leaves the sentence about tokens as it is.",
}
