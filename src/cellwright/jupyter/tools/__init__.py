"""The tools of live notebooks, one module a toolset."""
