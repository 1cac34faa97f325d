"""FASTA: units that end where a record ends."""

from outofcore.raw.blocks import units_of_records


def units(files, section):
    return units_of_records(files, (".fasta", ".fa", ".fna"), lambda text: text.rfind(b"\n>") + 1)
