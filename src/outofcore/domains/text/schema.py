"""Schema of a text store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from outofcore.domains.text.params import TextSection
from outofcore.domains.text.tokens.tokenizer import Tokenizer, load_tokenizer
from outofcore.raw.files import RawFile
from outofcore.store.schema import Field, Schema

SEQUENCES = (
    Field(name="bytes", dtype="int64", doc="UTF-8 bytes of the document as it was tokenized"),
    Field(name="characters", dtype="int64", doc="code points of the document as it was tokenized"),
    Field(name="source", dtype="int32", doc="raw file that it comes from, a row of sources"),
    Field(name="member", dtype="int32", doc="file inside that archive, in its order; 0 where it is no archive"),
    Field(name="offset", dtype="int64", doc="first byte in the decompressed file; in a Parquet file the row"),
)


def schemas(section: TextSection, files: Sequence[RawFile]) -> dict[str, Schema]:
    """One part, with ids as wide as the tokenizer requires, and the tokenizer among the attributes."""
    del files
    tokenizer = load_tokenizer(section)
    ends = "none ends a document" if tokenizer.end_id is None else f"{tokenizer.end_id} ends a document"
    tokens = Field(name="tokens", dtype=tokenizer.dtype, doc=f"token ids, 0 to {tokenizer.size - 1}; {ends}")
    return {"": Schema(rows=(tokens,), sequences=SEQUENCES, attributes=attributes(tokenizer))}


def attributes(tokenizer: Tokenizer) -> dict[str, Any]:
    """Store attributes that describe the tokenizer."""
    begin = {"begin_of_document": tokenizer.begin_of_document} if tokenizer.begin_of_document else {}
    end = {"end_of_document": tokenizer.end_of_document}
    return {"tokenizer": tokenizer.json, **end, **begin, "vocabulary": tokenizer.size}


def separator_of(store_attributes: Mapping[str, Any]) -> int | None:
    """The id that separates the documents of a store or of a file of tokens, if one does."""
    if "tokenizer" not in store_attributes:
        separator: int | None = store_attributes["end_id"]
        return separator
    tokenizer = tokenizer_of(store_attributes)
    return tokenizer.begin_id if tokenizer.end_id is None else tokenizer.end_id


def tokenizer_of(store_attributes: Any) -> Tokenizer:
    begin = store_attributes.get("begin_of_document")
    return Tokenizer(store_attributes["tokenizer"], store_attributes["end_of_document"], begin)
