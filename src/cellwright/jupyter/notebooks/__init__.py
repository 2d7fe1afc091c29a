"""A notebook in a room: its cells, how they are read and written."""
