"""The tools of scratch notebooks."""
