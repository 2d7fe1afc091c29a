"""Text that comes from outside, made fit to be shown and small enough to be read."""
