"""Everything into everything: notebooks, pads, thinking notebooks and files, read as books and written anywhere."""
