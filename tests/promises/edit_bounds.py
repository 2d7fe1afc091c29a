"""Promises about the size of edits."""

PROMISES = {
    "edits:bounded:growth": "What a text would be after an edit is measured before it is made; too large a result is refused and nothing is changed.",
    "edits:bounded:places": "Text that is replaced in very many places is replaced as one, and in more than 20,000 not at all.",
    "edits:bounded:changed": "One edit changes at most 1,000 cells that are there, and copies, moves or splits into at most 500; changes are "
    "proposed for notebooks of at most 1,000.",
    "edits:bounded:cells": "One edit brings at most 500 new cells; more are refused with what to do instead.",
}
