"""Makes text from outside safe to show and small enough to read."""
