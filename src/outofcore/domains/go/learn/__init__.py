"""What is learnt from games: the next move, and whose game it is."""
