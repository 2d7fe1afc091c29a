"""The project's files: listing, reading, searching them."""
