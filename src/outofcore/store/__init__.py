"""The store: how records become bytes that anyone can read and nobody can change unnoticed."""
