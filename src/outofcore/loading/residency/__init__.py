"""Where decoded rows are kept during an epoch: the batches are the same, at different cost in memory and time."""
