"""Settings of this machine, in bytes and cores; they affect no byte of a store and no order of samples."""
