"""The states of the cells of live notebooks: which are fresh, and why the others are not."""
