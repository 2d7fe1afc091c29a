"""Finding everything: pads, thinking notebooks, notebooks, discoveries and files, by one search."""
