"""PGN as bytes: game starts, tags, moves and notes."""
