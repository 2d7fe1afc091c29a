"""What a cell in another language than Python does with names: read with its tree-sitter grammar."""
