"""The database as a PostgreSQL server."""
