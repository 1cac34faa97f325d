"""FASTA: units that end where a record ends."""

from outofcore.raw.cutting import cut, halves


def units(files, section):
    return cut(files, (".fasta", ".fa", ".fna"), last_start)


def divided(unit, section):
    return halves(unit, last_start)


def last_start(text):
    return text.rfind(b"\n>") + 1
