"""The notebook: its model, how cells are named, differences and merges, formats."""
