"""The page that shows people what the agents do. It knows `core` and the notebook's ports; the program implements these."""
