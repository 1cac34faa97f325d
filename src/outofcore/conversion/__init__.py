"""Conversion: units in parallel, put back in order, written as whole shards."""
