"""The Jupyter server whose process we are in."""
