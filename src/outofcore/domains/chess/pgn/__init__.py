"""PGN as bytes: where games begin, what their tags say, which moves and notes they hold."""
