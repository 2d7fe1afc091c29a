"""The workspace's database: SQLite in the state folder, or PostgreSQL by URL. What the parts keep is here."""
