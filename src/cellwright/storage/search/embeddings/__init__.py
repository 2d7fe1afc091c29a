"""Sentences as vectors: models, their vocabulary, and where they come from."""
