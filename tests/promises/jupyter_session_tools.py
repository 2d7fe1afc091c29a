"""What the session tools promise."""

PROMISES = {
    "sessions:query": "Open documents are told with their state and the true time of their last use; asking changes nothing.",
    "sessions:end": "Ending saves first, tells whether it was saved, and the document is remembered as disconnected for an hour.",
    "sessions:end:running": "A notebook in which something runs is not left: the error says so, and the run goes on.",
    "sessions:idle": "A document that nobody uses is left after the session timeout, and opened again by the next call.",
    "sessions:unknown": "A document that was never open is not_found, which is no error.",
}
