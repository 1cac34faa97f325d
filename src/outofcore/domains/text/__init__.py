"""Text: raw files to tokens, windows and a small GPT."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from outofcore.domains.domain import Domain
from outofcore.domains.text.params import SUFFIXES, TextSection
from outofcore.domains.versions import VERSIONS
from outofcore.raw.files import RawFile
from outofcore.raw.unit import Unit

if TYPE_CHECKING:
    from outofcore.display.table import DisplayTable
    from outofcore.domains.planning import Outlook
    from outofcore.domains.text.stream import TextStream
    from outofcore.store.reader import Store
    from outofcore.store.schema import Columns


class Text(Domain):
    """Documents, as tokens; imports are deferred to the calls that need them."""

    name = "text"
    row = "token"
    sequence = "document"
    divided_by = "source.separator"
    suffixes = SUFFIXES
    section = TextSection
    versions = VERSIONS["text"]
    rejecting: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "source.text_column": ("no_text",),
        "filters.min_bytes": ("too_short",),
        "filters.max_bytes": ("too_long",),
    }
    shortest = ((".txt", 1, 1), (".jsonl", 1, 1), (".ndjson", 1, 1))
    packages = ("gigatoken", "pyarrow", "tokenizers")

    def prepared(self, section: TextSection, store: str) -> TextSection:
        """The section with a tokenizer: the given one, else one that is learnt from the text, next to the store."""
        if "path" in section.tokenizer.model_fields_set:
            return section
        self.require_packages()
        from outofcore.domains.text.documents.hub import open_raw
        from outofcore.domains.text.tokens.learn import write_tokenizer

        name = store.rstrip("/").rpartition("/")[2]
        path = Path(store).parent / f"{name}.tokenizer.json"
        write_tokenizer(path, section, open_raw(section))
        return section.model_copy(update={"tokenizer": section.tokenizer.model_copy(update={"path": str(path)})})

    def record(self, unit: Unit, section: TextSection, place: tuple[int, int], size: int | None) -> bytes:
        """The line of JSON, the value or the text of a document; of one that was divided the part that it is."""
        from outofcore.domains.text.documents.records import part_of_record

        part = part_of_record(unit, section, place, size)
        return super().record(unit, section, place, size) if part is None else part

    def streamed(self, section: TextSection) -> bool:
        """Whether ``mode`` is ``stream``."""
        return section.mode == "stream"

    def raw_files(self, section: TextSection, records: Iterable[Mapping[str, Any]] | None = None) -> Sequence[RawFile]:
        """Raw files, or a dataset in the same form: one of the hub, or given ``records``."""
        self.require_packages()
        from outofcore.domains.text.documents.hub import given_records, open_raw

        return open_raw(section) if records is None else [given_records(records, section.source.text_column)]

    def stream_settings(self, section: TextSection) -> dict[str, Any]:
        """The settings that decide how raw text becomes windows."""
        return section.model_dump(mode="json", include={"source", "filters", "splits"}) | {
            "stream": section.stream.model_dump(mode="json")
        }

    def stream(self, files: Sequence[RawFile], section: TextSection, split: str, **options: Any) -> TextStream:
        """Windows of tokens directly from raw text; ``options`` as the stream takes them."""
        from outofcore.domains.text.stream import TextStream

        return TextStream(files, section, split, **options)

    def stream_bytes(self, section: TextSection, threads: int) -> int:
        """Three pools, the units being tokenized, the batches, and the engines."""
        from outofcore.domains.text.stream import stream_bytes

        return stream_bytes(section, threads)

    def ratios(self, store: Store) -> Mapping[str, float]:
        """Characters per token, those around documents included, over all documents."""
        tokens = characters = 0
        for split in store.splits:
            for documents in store.sequences(split).blocks(1 << 20, "length", "characters"):
                tokens += int(documents["length"].sum())
                characters += int(documents["characters"].sum())
        return {"characters_per_token": characters / tokens} if tokens else {}

    def draw(self, rows: Columns, attributes: Mapping[str, Any] | None = None) -> str:
        """The text of the tokens, by the tokenizer in the store's attributes; without one, the ids."""
        tokens = rows["tokens"]
        if attributes is None:
            return " ".join(map(str, tokens))
        text: str = self._module("schema").tokenizer_of(attributes).decode(tokens)
        return text

    def plan(self, section: TextSection, outlook: Outlook) -> tuple[DisplayTable, ...]:
        """Recommended settings by hardware, if other sizes are asked for; a size that makes no sense is a note."""
        from outofcore.domains.task import note
        from outofcore.domains.text.advice import advice_table
        from outofcore.domains.text.network import model_size, size_doubt
        from outofcore.domains.text.tokens.tokenizer import load_tokenizer

        if doubt := size_doubt(model_size(section, load_tokenizer(section).size)):
            note(doubt)
        return (advice_table(section, outlook),) if outlook.sizes else ()


DOMAIN = Text()
