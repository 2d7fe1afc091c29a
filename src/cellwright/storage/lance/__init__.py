"""The optional search index in LanceDB."""
