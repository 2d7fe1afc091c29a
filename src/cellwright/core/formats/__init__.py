"""Notebooks as files: one model, and the formats it is written in and read from."""
