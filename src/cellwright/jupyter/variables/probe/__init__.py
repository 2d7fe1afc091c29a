"""What is sent to a kernel to look at its variables: modules that need Python 3.8 and nothing of ours.

Their sources are joined into one program, so no name may stand in two of them. A value is looked at through its real type alone: what
the notebook's own classes define (`__repr__`, `__len__`, `__getattr__`, properties, `__class__`) is never called.
"""
