"""From a store to batches: order, reading, residency."""
