"""What the models of chess and Go share."""
