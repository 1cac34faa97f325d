"""Training straight from raw text: reading, tokenizing and shuffling in the background, nothing stored."""
