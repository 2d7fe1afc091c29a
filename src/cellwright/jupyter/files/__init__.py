"""Files of a Jupyter server: their paths, which may be read, how they are made."""
