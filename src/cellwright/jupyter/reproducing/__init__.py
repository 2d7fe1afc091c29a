"""Runs of a copy of a notebook in a clean kernel, compared with the outputs that the notebook keeps."""
