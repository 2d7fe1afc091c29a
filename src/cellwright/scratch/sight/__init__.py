"""What callers saw of pads, and whether their changes may be made on the pad as it is."""
