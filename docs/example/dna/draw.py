"""A row as text."""

from outofcore.domains.dna.schema import BASES


def draw(rows, attributes):
    return "".join(BASES[code] for code in rows["bases"][:60])
