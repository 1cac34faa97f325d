"""The keys of params.yaml that every domain has."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from outofcore.checks import MOST
from outofcore.domains.domain import Section
from outofcore.store.codecs import CodecName
from outofcore.store.schema import Layout


def _inside(pattern: str) -> str:
    steps = pattern.split("/")
    if pattern.startswith("/") or ".." in steps:
        raise ValueError(f"expected a pattern inside of raw, such as **/*, not {pattern!r}")
    if any("**" in step and step != "**" for step in steps):
        raise ValueError("** matches folders at any depth, as in **/*.txt; inside a name a single * is enough")
    return pattern


_LONGEST = 4096  # bytes of a path on Linux
_TEXT = r"^[^\x00]+$"

Raw = Annotated[str, Field(min_length=1, max_length=_LONGEST, pattern=_TEXT)]
Match = Annotated[str, Field(min_length=1, max_length=_LONGEST, pattern=_TEXT), AfterValidator(_inside)]


def _no_number(value: object) -> object:
    if isinstance(value, int | float):
        raise ValueError(f"expected a day such as 2020-01-31, got the number {value}")  # noqa: TRY004 - which pydantic reports with the key
    return value


Day = Annotated[date, Field(strict=False), BeforeValidator(_no_number)]
"""As YAML has it, or as text: 2020-01-31."""


def _share_or_names(value: object) -> object:
    names = (value,) if isinstance(value, str) else value
    if isinstance(names, tuple) and names and all(type(member) in (str, int) for member in names):
        return tuple(map(str, names))
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError("expected a share from 0 to 1, or names in a list")
    return value


HeldOut = Annotated[float | tuple[str, ...], BeforeValidator(_share_or_names)]
"""A share of the sequences, or the names of what is held out."""


def is_unset(value: object) -> bool:
    """For ``exclude_if`` of a setting that came later: stores without it keep the bytes that they had before it."""
    return value is None


class Filters(Section):
    """Base of what decides which records are kept."""

    unrated_passed: ClassVar[Mapping[str, str]] = {}
    """Counts of a conversion of records that a filter seems to exclude and does not, and what is to be said of them."""

    duplicates: str = Field("drop", pattern="^(drop|keep)$", description="records equal to an earlier one")


class SplitSection(Section):
    """Share of the sequences in each split, by a hash of their content or of what they have in common; or as named."""

    by: str = Field(
        "content",
        pattern=r"^[a-z][a-z0-9_]*$",
        description="content | file: all of a file in one split | players: both players of a game in it | date | "
        "place: text, the last part of it | a column of the sequences: all of one value",
    )
    val_from: Day | None = Field(None, description="by date: first day of val; null: there is none")
    test_from: Day | None = Field(None, description="by date: first day of test; null: there is none")
    val: HeldOut = Field(
        0.05,
        description="held for validation: a share or, by name, files (patterns such as valid/*), players, or values of "
        "the column",
    )
    test: HeldOut = Field(0.05, description="held for the final test, in the same way")
    seed: int = Field(0, ge=0, lt=2**63, description="another seed, another choice")

    @model_validator(mode="after")
    def _dates(self) -> SplitSection:
        cuts = [day for day in (self.val_from, self.test_from) if day is not None]
        if (self.by == "date") != bool(cuts):
            raise ValueError("val_from and test_from go with by: date, which needs one of them")
        if cuts != sorted(set(cuts)):
            raise ValueError(f"expected val_from before test_from, got {self.val_from} and {self.test_from}")
        if cuts and self.named:
            raise ValueError("by: date has val_from and test_from; val and test name nothing there")
        if sum(self.shares.values()) > 1 + 1e-9:
            raise ValueError(f"expected shares with a sum of at most 1, got {self.val} and {self.test}")
        return self

    @property
    def shares(self) -> dict[str, float]:
        """Shares of val and test; 0 for one that is named."""
        shares = {"val": self.val, "test": self.test}
        return {name: 0.0 if isinstance(share, tuple) else share for name, share in shares.items()}

    @property
    def expected(self) -> tuple[float, float, float]:
        """Shares of train, val and test for a forecast, in which one that is named has a twentieth."""
        val, test = (0.05 if name in self.named else share for name, share in self.shares.items())
        return max(0.0, 1 - val - test), val, test

    @property
    def named(self) -> dict[str, tuple[str, ...]]:
        """What val and test hold by name."""
        shares = {"val": self.val, "test": self.test}
        return {name: share for name, share in shares.items() if isinstance(share, tuple)}


class StoreSection(Section):
    """Store layout; see the documentation of the store format."""

    codec: CodecName = "zstd"
    chunk_rows: int = Field(4096, ge=16, le=2**26, description="rows decoded at once")
    shard_rows: int = Field(1_048_576, ge=16, le=2**40, description="rows of a file, a multiple of chunk_rows")

    @model_validator(mode="after")
    def _whole_chunks(self) -> StoreSection:
        if self.shard_rows % self.chunk_rows or self.chunk_rows % 16:
            raise ValueError(
                "shard_rows must be a multiple of chunk_rows, and chunk_rows one of 16 (the lanes of the order), "
                f"got {self.shard_rows} and {self.chunk_rows}"
            )
        return self

    def layout(self) -> Layout:
        """These settings as a store layout."""
        return Layout(codec=self.codec, chunk_rows=self.chunk_rows, shard_rows=self.shard_rows)


class AuditSection(Section):
    """How many records the reference library checks."""

    records: int = Field(
        300,
        ge=1,
        le=2**40,
        description="about how many are checked, whatever the size of the input; and as many unusual ones",
    )


_Decay = Annotated[float, Field(ge=0, lt=1)]
_Step = Annotated[int, Field(ge=1, le=MOST)]
_Range = Annotated[list[_Step], Field(min_length=2, max_length=2)]


class TrainSection(Section):
    """Training settings that change the result; those of the machine (device, micro-batch) are in machine.yaml.

    ``sized_by`` names the settings of a domain that take the place of ``preset``.
    """

    sized_by: ClassVar[tuple[str, ...]] = ()

    preset: Literal["test", "small", "medium", "large", "huge"] = "test"
    epochs: int = Field(1, ge=1, le=MOST)
    max_steps: int = Field(-1, ge=-1, le=MOST, description="optimizer steps after which training ends; -1: no bound")
    batch_size: int = Field(1024, ge=1, le=MOST, description="samples an optimizer step, over all ranks and pieces")
    learning_rate: float = Field(1e-3, gt=0, le=100)
    warmup_steps: int = Field(0, ge=0, le=MOST, description="first steps, over which the learning rate rises linearly")
    schedule: Literal["constant", "cosine"] = Field(
        "constant", description="learning rate after the warm-up: constant, or falling along a cosine"
    )
    min_learning_rate: float = Field(0.0, ge=0, le=100, description="cosine: the learning rate at its end")
    clip_norm: float | None = Field(
        None, gt=0, description="longer gradients of a step, all weights together, are scaled to this norm; null: none"
    )
    weight_decay: float = Field(0.01, ge=0, le=100)
    betas: tuple[_Decay, _Decay] = Field(
        (0.9, 0.999), description="how much the means of gradients, and of their squares, keep at each step"
    )
    precision: Literal["32-true", "bf16-mixed"] = "32-true"
    optimizer: Literal["adamw", "adamw8bit"] = "adamw"
    arithmetic: Literal["native", "portable"] = Field(
        "native", description="portable: one thread on the CPU, and the same model on every x86-64 processor"
    )
    pool_blocks: int = Field(64, ge=1, le=MOST, description="blocks in memory at a time: how well batches mix")
    val_every: int | None = Field(
        None, ge=1, le=MOST, description="optimizer steps from validation to validation; null: an epoch"
    )
    val_examples: int | None = Field(
        None, ge=1, le=MOST, description="samples of a validation, whole batches from all over the split; null: all"
    )
    seed: int = Field(0, ge=0, le=MOST)
    skip: tuple[_Step | _Range, ...] = Field((), description="steps to leave out: 340, or [1000, 1020], both included")

    @model_validator(mode="after")
    def _falling(self) -> TrainSection:
        if any(not isinstance(item, int) and item[0] > item[1] for item in self.skip):
            raise ValueError("skip: a range's first step must not exceed its last")
        if self.min_learning_rate > self.learning_rate:
            raise ValueError(f"min_learning_rate must not exceed learning_rate, {self.learning_rate:g}")
        return self


class DomainSection(Section):
    """Base of a domain's section of params.yaml; a domain gives those keys that are its own another type."""

    raw: Raw = Field(description="a file or folder; .zst, .gz, .bz2, .xz and archives are read as streams")
    # Not recorded in stores and models, which it does not change.
    grow: bool = Field(
        default=False,
        exclude=True,
        description="a store for each file or folder in raw, of which only new and changed ones are converted",
    )
    match: Match = Field("**/*", description="glob inside the folder")
    source: Section = Section()
    filters: Filters = Filters()
    splits: SplitSection = SplitSection()
    store: StoreSection = StoreSection()
    audit: AuditSection = AuditSection()
    tensors: Section = Section()
    train: TrainSection = TrainSection()
    # Not recorded in stores and models, which it does not change.
    evaluate: Raw | None = Field(None, exclude=True, description="the store whose test split the stage evaluate reads")

    @model_validator(mode="after")
    def _equal_records_in_one_split(self) -> DomainSection:
        if (self.splits.by != "content" or self.splits.named) and self.filters.duplicates == "keep":
            raise ValueError(
                f"splits.by: {self.splits.by} would leave equal records in several splits with filters.duplicates: "
                "keep; drop duplicates, or split by content"
            )
        return self
