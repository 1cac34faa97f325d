"""Play games: the board, the rows of every game, and the oracle."""
