"""Edits of a notebook as a whole: reshaping, replacing, taking back, proposing."""
