"""Serving one client over standard input and output."""
