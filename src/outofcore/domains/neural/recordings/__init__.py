"""Sessions as they lie on disk, one small reader for each format; nothing here is ever whole in memory."""
