"""What each cell of a notebook defines and uses, and what follows from it: which cells are stale."""
