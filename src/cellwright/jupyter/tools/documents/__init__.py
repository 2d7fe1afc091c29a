"""Tools for text documents and files."""
