"""Sessions on disk, one small reader per format; none is ever in memory as a whole."""
