"""The page: what the agents are doing, for people to look at. Knows `core` only; what it shows is given to it by small protocols."""
