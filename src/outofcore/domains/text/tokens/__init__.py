"""From text to token ids: the tokenizer's file, the engine, its oracle, and where a text may be cut."""
