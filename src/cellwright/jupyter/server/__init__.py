"""Which Jupyter server to use: finding one, or starting our own."""
