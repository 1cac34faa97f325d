"""The store: records as bytes that any Zarr reader can read and no change goes unnoticed."""
