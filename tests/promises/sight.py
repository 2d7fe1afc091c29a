"""Promises about sight: an edit means what its caller was shown, and says what it did."""

PROMISES = {
    "sight:merge": "Two changes of one text are merged where they do not touch; where they do, there is no merged text.",
}
