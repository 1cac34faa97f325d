"""Chess: PGN to positions, tensors and a model."""
