"""What chess and Go share: models, predictions and pictures of positions."""
