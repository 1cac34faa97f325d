"""Games as they are played: the board, the rows of every game, and the oracle beside them."""
