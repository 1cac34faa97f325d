"""What chess and Go share: columns, the task and its networks, predictions and pictures of positions."""
