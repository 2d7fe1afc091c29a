"""The database as one SQLite file."""
