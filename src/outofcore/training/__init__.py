"""Training: the loop, checkpoints, ranks, memory report, optimizers."""
