"""Disk space: asked before it is used, watched while it is used."""
