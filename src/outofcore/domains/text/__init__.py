"""Text: raw files to tokens, windows and a small GPT."""
