"""The page of a workspace: its facts, and its routes behind the gate."""
