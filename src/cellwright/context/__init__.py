"""Project context: what is known about the project, and what was done in it."""
