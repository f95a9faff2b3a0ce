"""Compiled kernels, and the choice between them and plain NumPy."""
