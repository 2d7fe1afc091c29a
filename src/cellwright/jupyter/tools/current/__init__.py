"""Tools that work on the caller's current notebook."""
