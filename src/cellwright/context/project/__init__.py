"""The project file: reading it, drafting it, keeping what people wrote."""
