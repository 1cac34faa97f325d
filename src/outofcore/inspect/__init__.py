"""What a store holds and what a run would write, as tables for a terminal, a page, a document or a program."""
