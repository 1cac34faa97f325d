"""FASTA: units that end where a record ends."""

from outofcore.raw.cutting import cut


def units(files, section):
    return cut(files, (".fasta", ".fa", ".fna"), last_start)


def last_start(text):
    return text.rfind(b"\n>") + 1
