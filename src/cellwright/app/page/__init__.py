"""The page, put together: the workspace's documents and facts, and the routes of the gate."""
