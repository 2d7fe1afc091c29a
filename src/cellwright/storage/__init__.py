"""The workspace's database, which holds all that the parts store: SQLite in the state folder, or PostgreSQL by URL."""
