"""The disk guard: what will be written where, whether it fits, and how DVC stores it."""
