"""The text section of params.yaml."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from outofcore.checks import MOST
from outofcore.domains.domain import Section
from outofcore.domains.own_network import network_setting
from outofcore.domains.sections import (
    AuditSection,
    DomainSection,
    Filters,
    Raw,
    StoreSection,
    TrainSection,
    is_unset,
)

LONGEST = 2**20
"""Most tokens of a window."""
RECORD_BYTES = 16 << 20
"""Bytes of the longest line of JSON, the longest value of Parquet, and the longest document of any."""
SUFFIXES = (".txt", ".jsonl", ".ndjson", ".json", ".parquet", ".arrow")
BY_PLACE = "split_by_place"
"""The count of documents that are split by place as a hash leaves a split empty."""
UNKNOWN = "with_unknown_tokens"
"""The count of documents of which more than one token in a thousand is unknown to the tokenizer."""
HUB = ".hub"
"""Ending of a file that names a dataset of the Hugging Face hub, in ``raw``."""


class SourceSection(Section):
    """How raw text becomes documents.

    ``.jsonl`` and ``.ndjson`` hold a document per line, and ``.json`` as well, if it begins with a line that is an
    object, or in each object of an array; ``.parquet`` and ``.arrow`` hold a document per row. Anything else is plain
    text.
    """

    separator: str | None = Field(
        None, min_length=1, description="what separates documents in a .txt; null: one document a file"
    )
    text_column: str = Field(
        "text", description="the key or column that holds the text; inside of others with dots: message.content"
    )
    longest_document: int = Field(
        4 << 20,
        ge=16,
        le=RECORD_BYTES,
        description="bytes; a longer text is divided into documents, at a blank line, else at the end of a line",
    )
    end_of_document: str | None = Field(
        "<|endoftext|>",
        description="token that is put after each document, null: none; the same characters in a text are plain text",
    )
    begin_of_document: str | None = Field(
        None, exclude_if=is_unset, description="token that is put before each document; null: none"
    )

    @property
    def tokens(self) -> list[str]:
        """Those that are put around a document."""
        return list(dict.fromkeys(filter(None, [self.end_of_document, self.begin_of_document])))


class TokenizerSection(Section):
    """The tokenizer: trained from the text, or given.

    The stage ``tokenizer`` writes it to ``path``, where all other stages read it. It depends on ``given``, whatever the
    kind, so that a changed file there rebuilds the tokenizer.
    """

    kind: Literal["bpe", "characters", "file", "gpt2"] = Field(
        "bpe",
        description="bpe: byte-level BPE trained here; characters: each that the text has; file: a given "
        "tokenizer.json; gpt2: GPT-2's files, given",
    )
    vocab_size: int = Field(
        4096, ge=257, le=2**24, description="bpe: tokens, 256 bytes and the end of a document among them"
    )
    given: str = Field(
        "data/tokenizers/given",
        description="file: a tokenizer.json, or the folder that holds it; gpt2: the folder that holds encoder.json and "
        "vocab.bpe, or vocab.json and merges.txt; else not looked at",
        exclude=True,
    )
    path: str = Field("data/tokenizers/text.json", description="where the finished tokenizer is", exclude=True)

    @property
    def learnt(self) -> bool:
        """Whether it comes from the text."""
        return self.kind in ("bpe", "characters")

    @model_validator(mode="before")
    @classmethod
    def _path_alone(cls, values: Any) -> Any:
        """A call names a finished tokenizer by its path alone, or gives the library's own object."""
        if callable(to_str := getattr(values, "to_str", None)):
            return {"path": to_str()}
        if isinstance(values, str | Path):
            return {"path": os.fspath(values)}
        if not isinstance(values, Mapping):
            return values
        return {key: os.fspath(value) if isinstance(value, Path) else value for key, value in values.items()}


class FilterSection(Filters):
    """Which documents are kept; each filter counts its rejects under its own reason."""

    unrated_passed: ClassVar[Mapping[str, str]] = {
        BY_PLACE: "are split by place, the last part of the text held out: a hash of so few would leave a split empty; "
        "splits.by: place asks for it",
        UNKNOWN: "have more than one unknown token in a thousand; is it the tokenizer of such text?",
    }

    min_bytes: int = Field(1, ge=1, description="bytes of UTF-8 of the shortest document")
    max_bytes: int | None = Field(
        None,
        ge=1,
        le=RECORD_BYTES,
        description="bytes of UTF-8 of the longest document, before it is divided; null: no bound",
    )
    duplicates: Literal["drop", "keep"] = Field(
        "drop",
        description="documents with the text of an earlier one, in whatever file; mode stream has no memory of what it "
        "has read, and keeps them",
    )

    @model_validator(mode="after")
    def _ordered(self) -> FilterSection:
        if self.max_bytes is not None and self.min_bytes > self.max_bytes:
            raise ValueError(f"min_bytes must not exceed max_bytes, got {self.min_bytes} and {self.max_bytes}")
        return self


class TextStoreSection(StoreSection):
    """Token layout: chunks of 128 KiB at 2 bytes per token, files of 64 MiB."""

    chunk_rows: int = Field(65_536, ge=16, le=2**26, description="tokens decoded at once")
    shard_rows: int = Field(33_554_432, ge=16, le=2**40, description="tokens of a file, a multiple of chunk_rows")


class TextAuditSection(AuditSection):
    """How many documents ``tokenizers`` checks; it is a hundred times slower than the engine."""

    records: int = Field(
        100, ge=1, le=2**40, description="about how many are checked, whatever the size of the input; and the first"
    )


class TensorSection(Section):
    """Definition of a sample; changes no byte of the store."""

    seq_len: int = Field(
        256, ge=1, le=LONGEST, description="tokens that a model sees; a window holds one more, the last target"
    )
    stride: int | None = Field(
        None, ge=1, le=LONGEST, description="tokens from window to window; null: seq_len, each target once"
    )
    across_documents: bool | Literal["best_fit"] = Field(
        default=True,
        description="windows run on from document to document; false: each lies inside one document; best_fit: whole "
        "documents share windows, and longer ones are cut",
    )
    reset_at_documents: bool = Field(
        default=False,
        description="positions start again and attention ends where a document does; the token that ends one opens the "
        "next, whose first token is its target",
    )

    @property
    def step(self) -> int:
        """Tokens from one window to the next."""
        return self.stride or self.seq_len


class StreamSection(Section):
    """Training directly from raw text (``mode: stream``)."""

    shuffle_windows: int = Field(
        8192, ge=1, le=MOST, description="least windows that are shuffled together; three times as many are in memory"
    )
    max_examples: int | None = Field(
        None,
        ge=1,
        le=MOST,
        description="windows of an epoch, the text read again where it ends before; null: all, once",
    )


class TextTrainSection(TrainSection):
    """Training of a small GPT."""

    sized_by: ClassVar[tuple[str, ...]] = ("parameters", "layers", "width", "heads")

    network: str = network_setting("transformer")
    preset: Literal["test", "small", "medium", "large"] = "test"
    batch_size: int = Field(
        64, ge=1, le=MOST, description="windows an optimizer step, over all ranks and micro-batches"
    )
    parameters: int | None = Field(
        None, ge=1000, le=10**12, description="size of the model to aim at; null: what the preset says"
    )
    layers: int | None = Field(
        None, ge=1, le=10**4, description="blocks; with width, in place of preset and parameters"
    )
    width: int | None = Field(None, ge=1, le=10**6, description="length of a token's vector")
    heads: int | None = Field(
        None, ge=1, le=10**6, description="attention heads, which share the width; null: one for each 32 of it"
    )
    dropout: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="share of zeros in training, after the embeddings, in attention and after both"
        " halves of a block; drawn for each micro-batch and rank",
    )
    sample_tokens: int = Field(200, ge=0, description="tokens of the text that the trained model writes")

    @model_validator(mode="after")
    def _one_size(self) -> TextTrainSection:
        shape = f"layers {self.layers}, width {self.width}, heads {self.heads}"
        if (self.layers is None) != (self.width is None) or (self.heads and not self.width):
            raise ValueError(f"expected layers and width together, and heads with them only, got {shape}")
        if self.layers and self.parameters:
            raise ValueError(
                f"expected either parameters or layers and width, got {self.parameters} parameters and {shape}"
            )
        if self.width and self.heads and self.width % self.heads:
            raise ValueError(f"expected a width that is a multiple of heads, got {shape}")
        return self


class TextSection(DomainSection):
    """All text settings that change the bytes of the store or the model."""

    raw: Raw = Field(
        description="a text file or a folder; .txt, .jsonl, .parquet, compressed, in archives; in mode stream also "
        "a .hub file, which names a dataset of the Hugging Face hub"
    )
    mode: Literal["store", "stream"] = Field(
        "store", description="train from the store, or tokenize while training and store nothing", exclude=True
    )
    source: SourceSection = SourceSection()
    tokenizer: TokenizerSection = TokenizerSection()
    filters: FilterSection = FilterSection()
    store: TextStoreSection = TextStoreSection()
    audit: TextAuditSection = TextAuditSection()
    tensors: TensorSection = TensorSection()
    stream: StreamSection = Field(StreamSection(), exclude=True)
    train: TextTrainSection = TextTrainSection()

    @model_validator(mode="after")
    def _settings_agree(self) -> TextSection:
        streams, tensors, stride = self.mode == "stream", self.tensors, self.tensors.stride
        if streams and self.splits.by != "content":
            raise ValueError(f"splits.by: expected content in mode stream, got {self.splits.by}; use mode store")
        if tensors.across_documents == "best_fit" and (streams or tensors.step != tensors.seq_len):
            raise ValueError(
                f"tensors.across_documents: best_fit needs mode store and stride null, got {self.mode}, {stride}"
            )
        if not streams and self.raw.endswith(HUB):
            raise ValueError(
                f"{self.raw} names a dataset of the hub, which is read in mode stream only; to make a store of it, "
                "save the dataset as Parquet files"
            )
        if self.grow and streams:
            raise ValueError("grow: expected false in mode stream, which reads the whole folder; or use mode store")
        finished = {"path", "kind"} & self.tokenizer.model_fields_set == {"path"}  # as a call names one
        if self.grow and self.tokenizer.learnt and not finished:
            given, kind = self.tokenizer.given, self.tokenizer.kind
            raise ValueError(
                f"tokenizer.kind: with grow: true, expected file or gpt2, got {kind}: each path that is added would "
                "change the tokenizer, and so convert all the others again; set kind: file, and learn one with "
                f"'outofcore tokenizer {self.raw} {given}/tokenizer.json --params params.yaml -S kind={kind}'"
            )
        return self
