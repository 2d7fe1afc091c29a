"""The search index in LanceDB, for who asks for it."""
