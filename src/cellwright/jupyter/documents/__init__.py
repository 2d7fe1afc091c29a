"""Documents that people have open too: rooms, their text, who is there."""
