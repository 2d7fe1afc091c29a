"""Everything into everything: notebooks, pads, thinking notebooks and files, read as notebooks and written anywhere."""
