"""From a store to batches: order, windows, residencies, memory, resume."""
