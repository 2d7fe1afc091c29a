"""Texts as vectors: a model from an installed package, from a folder, or behind an address. Nothing is downloaded here."""
