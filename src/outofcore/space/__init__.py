"""The disk guard: what will be written where, whether it fits, and what DVC made of it.

DVC's settings and lock files are read as files; nothing of DVC is imported.
"""
