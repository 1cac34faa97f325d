"""The order of samples: which rows are in which batch of which rank, as a pure function of (layout, seed, epoch)."""
