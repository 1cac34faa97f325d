"""SGF as it is written: finding games, reading their main lines, and what their properties mean."""
