"""Notebooks as files: ipynb, srcmd, Markdown, JSON and HTML."""
