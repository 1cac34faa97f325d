"""DNA from FASTA files: a base is a row, a record is a sequence; a small network predicts the next base."""

from typing import Literal

from outofcore.domains.domain import Domain, Section
from outofcore.domains.sections import DomainSection


class SourceSection(Section):
    unknown: Literal["keep", "reject"] = "reject"


class TensorSection(Section):
    length: int = 32


class DnaSection(DomainSection):
    source: SourceSection = SourceSection()
    tensors: TensorSection = TensorSection()


class Dna(Domain):
    name, row, sequence, section = "dna", "base", "record", DnaSection
    suffixes = (".fasta", ".fa", ".fna")


DOMAIN = Dna()
