"""What a cell in Python does with names: its syntax tree, gone through in the order in which it runs."""
