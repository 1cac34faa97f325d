"""Tasks on games: predict the next move, identify the player."""
