"""The disk guard: what will be written where, whether it fits, and how DVC stores it.

DVC's settings and lock files are read as files; nothing of DVC is imported.
"""
