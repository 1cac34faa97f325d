"""From a store to batches: splits, residencies, memory, delivery, resume."""
