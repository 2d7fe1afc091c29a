"""Finding what is stored: by words, by meaning, and both together."""
