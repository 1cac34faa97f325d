"""Where decoded rows lie while an epoch runs: all give the same batches, at different cost in memory and time."""
