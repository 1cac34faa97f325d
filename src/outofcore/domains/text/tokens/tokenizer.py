"""A finished tokenizer: its ``tokenizer.json`` and derived facts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tokenizers

from outofcore.domains.text.params import TextSection
from outofcore.domains.text.tokens.cuts import cuttable
from outofcore.errors import ParamsError

TOKENIZER_FILE = "tokenizer.json"
"""Name of the file in a folder that is given for a tokenizer, as the library ``transformers`` saves it."""


@dataclass(frozen=True)
class Tokenizer:
    """A tokenizer as a value: it can be pickled, compared, and stored with the tokens."""

    json: str  # content of its ``tokenizer.json``
    end_of_document: str | None  # token, or None

    @cached_property
    def plain(self) -> str:
        """The tokenizer for documents, as JSON: special tokens in a text are plain text, nothing is added."""
        content = dict(self._content)
        added = content.get("added_tokens") or []
        content["added_tokens"] = [token for token in added if not token["special"]]
        content |= {"post_processor": None, "truncation": None, "padding": None}
        return json.dumps(content, ensure_ascii=False, separators=(",", ":"))

    @cached_property
    def size(self) -> int:
        """One more than the largest id."""
        return max(self._vocabulary.values()) + 1

    @property
    def dtype(self) -> str:
        """The narrowest of ``uint16`` and ``uint32`` that holds every id."""
        return "uint16" if self.size <= 2**16 else "uint32"

    @property
    def end_id(self) -> int | None:
        """Id of the token that ends a document; raises ParamsError if the tokenizer lacks it."""
        if self.end_of_document is None:
            return None
        if self.end_of_document not in self._vocabulary:
            message = (
                f"text.source.end_of_document: the tokenizer has no token {self.end_of_document!r}; name one of its "
                "own, or null for documents without an end"
            )
            raise ParamsError(message)
        return self._vocabulary[self.end_of_document]

    @cached_property
    def cuttable(self) -> bool:
        """Whether safe cuts of long texts are known; see :mod:`outofcore.domains.text.tokens.cuts`."""
        return cuttable(json.loads(self.plain))

    def decode(self, ids: npt.NDArray[Any]) -> str:
        """Ids as text, special tokens included."""
        text: str = self._reference.decode(ids.tolist(), skip_special_tokens=False)
        return text

    def encode(self, text: str) -> list[int]:
        """The reference's ids of a short text, with special tokens treated as text."""
        ids: list[int] = tokenizers.Tokenizer.from_str(self.plain).encode(text, add_special_tokens=False).ids
        return ids

    def byte_lengths(self) -> npt.NDArray[np.int64]:
        """Bytes of text per id, shape (size,); 0 for special tokens and unused ids."""
        lengths = np.zeros(self.size, np.int64)
        byte_level = '"ByteLevel"' in json.dumps(self._content.get("decoder"))
        for token, number in self._vocabulary.items():
            # Byte-level tokens are written with one character per byte.
            lengths[number] = len(token) if byte_level else len(self._reference.decode([number]).encode())
        for token in self._content.get("added_tokens") or []:
            lengths[token["id"]] = 0 if token["special"] else len(token["content"].encode())
        return lengths

    @cached_property
    def _content(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.json)
        return content

    @cached_property
    def _reference(self) -> Any:
        return tokenizers.Tokenizer.from_str(self.json)

    @cached_property
    def _vocabulary(self) -> dict[str, int]:
        vocabulary: dict[str, int] = self._reference.get_vocab(with_added_tokens=True)
        return vocabulary

    def __getstate__(self) -> dict[str, Any]:
        return {"json": self.json, "end_of_document": self.end_of_document}


def load_tokenizer(section: TextSection) -> Tokenizer:
    """The tokenizer at ``tokenizer.path``, a file or the folder that holds it.

    Raises ParamsError if it is missing, not a ``tokenizer.json``, or lacks the end token.
    """
    path = Path(section.tokenizer.path)
    path = path / TOKENIZER_FILE if path.is_dir() else path
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        message = (
            f"text.tokenizer.path: no tokenizer at {path}; make it with 'dvc repro tokenizer', or outside of a project "
            f"with 'outofcore tokenizer RAW {path}'"
        )
        raise ParamsError(message) from error
    except UnicodeDecodeError as error:
        message = f"{path}: expected a tokenizer.json, {error}"
        raise ParamsError(message) from error
    return _checked(text, section.source.end_of_document, str(path))


@lru_cache(maxsize=4)
def _checked(text: str, end_of_document: str | None, path: str) -> Tokenizer:
    try:
        tokenizers.Tokenizer.from_str(text)
    except Exception as error:
        message = f"{path}: expected a tokenizer.json, {error}"
        raise ParamsError(message) from error
    tokenizer = Tokenizer(text, end_of_document)
    _ = tokenizer.end_id
    return tokenizer
