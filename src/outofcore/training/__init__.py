"""Training: fit, memory report, optimizers."""
