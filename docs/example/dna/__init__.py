"""DNA from FASTA files: a base is a row, a record is a sequence; a small network predicts the next base."""

from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np

from outofcore.domains.dna.sample import write_sample
from outofcore.domains.dna.schema import BASES, SCHEMA
from outofcore.domains.dna.source import SUFFIXES, convert, units
from outofcore.domains.domain import Section
from outofcore.domains.sections import AuditSection, SplitSection, StoreSection, TrainSection
from outofcore.store.schema import Schema


class SourceSection(Section):
    unknown: Literal["keep", "reject"]


class FilterSection(Section):
    duplicates: Literal["drop", "keep"]


class TensorSection(Section):
    length: int


class DnaSection(Section):
    raw: str
    match: str
    source: SourceSection
    filters: FilterSection
    splits: SplitSection
    store: StoreSection
    audit: AuditSection
    tensors: TensorSection
    train: TrainSection


class Dna:
    name, row, sequence, suffixes, section = "dna", "base", "record", SUFFIXES, DnaSection

    def schemas(self, section: DnaSection, files: Any) -> dict[str, Schema]:
        return {"": SCHEMA}

    def units(self, files: Any, section: DnaSection) -> Any:
        return units(files)

    def converter(self, section: DnaSection) -> Any:
        return partial(convert, keep_unknown=section.source.unknown == "keep")

    def reading(self, store_attributes: Any, section: DnaSection) -> Any:
        return import_module("outofcore.domains.dna.model").NextBase()

    def task(self, store: Any, section: DnaSection) -> Any:
        return import_module("outofcore.domains.dna.model").NextBaseTask(section.tensors.length)

    def sample(self, folder: Path, generator: np.random.Generator) -> None:
        write_sample(folder, generator)

    def draw(self, rows: Any, attributes: Any = None) -> str:
        return "".join(BASES[code] for code in rows["bases"][:60])


DOMAIN = Dna()
