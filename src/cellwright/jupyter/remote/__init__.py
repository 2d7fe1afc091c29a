"""A Jupyter server that is reached over HTTP and websockets."""
