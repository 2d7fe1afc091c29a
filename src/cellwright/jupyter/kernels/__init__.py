"""Kernels: the connection, the queue of runs, their outputs."""
