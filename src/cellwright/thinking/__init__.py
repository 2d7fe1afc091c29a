"""Thinking notebooks: ephemeral, with reasoning templates, run in kernels of their own and read as `notebook://` resources."""
