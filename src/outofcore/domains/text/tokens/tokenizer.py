"""A finished tokenizer: its ``tokenizer.json`` and derived facts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from outofcore.domains.text.params import TextSection
from outofcore.domains.text.tokens.normalizer import MOST_GROWTH, most_growth
from outofcore.errors import ParamsError, RawInputError
from outofcore.ndarrays import Ints
from outofcore.raw.likely import advice
from outofcore.settings.yaml_text import parse_json

TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model")
"""Names of a tokenizer in a folder, as the library ``transformers`` saves it; that of SentencePiece is refused."""

GPT2_FILES = (("encoder.json", "vocab.bpe"), ("vocab.json", "merges.txt"))
"""GPT-2's vocabulary and merges, as named by OpenAI and by the hub."""

MOST_IDS = 1 << 24
"""Most ids of a tokenizer: tables by id, and the weights of a model, have a row for each up to the largest."""

_BYTE = re.compile("<0x[0-9A-F]{2}>")


class EncodingError(RawInputError):
    """A library fails at a text: ``tokenizers`` panics at some texts with certain added tokens."""


@dataclass(frozen=True)
class Tokenizer:
    """A tokenizer as a value: it can be pickled, compared, and stored with the tokens."""

    json: str  # content of its ``tokenizer.json``
    end_of_document: str | None  # token, or None
    begin_of_document: str | None = None  # likewise

    @cached_property
    def plain(self) -> str:
        """The tokenizer without what it adds around a text, as JSON; the ids stay those of the file."""
        return dumped(self.content | {"post_processor": None, "truncation": None, "padding": None})

    @cached_property
    def content(self) -> dict[str, Any]:
        """The parsed ``tokenizer.json``, not to be changed."""
        content: dict[str, Any] = json.loads(self.json)
        return content

    @property
    def added_tokens(self) -> list[dict[str, Any]]:
        """Tokens in addition to those of the model: ``content``, ``special`` and their other flags."""
        return self.content.get("added_tokens") or []

    @cached_property
    def size(self) -> int:
        """One more than the largest id."""
        return max(self.vocabulary.values()) + 1

    @property
    def dtype(self) -> str:
        """The narrowest of ``uint16`` and ``uint32`` that holds every id."""
        return "uint16" if self.size <= 2**16 else "uint32"

    @property
    def end_id(self) -> int | None:
        """Id of the token that ends a document; raises ParamsError if the tokenizer lacks it."""
        return self._id("end", self.end_of_document)

    @property
    def begin_id(self) -> int | None:
        """Id of the token that begins a document, likewise."""
        return self._id("begin", self.begin_of_document)

    def _id(self, place: str, token: str | None) -> int | None:
        if token is None:
            return None
        if token not in self.vocabulary:
            raise ParamsError(
                f"text.source.{place}_of_document: the tokenizer has no token {token!r}; name one of its own, or null "
                "for none"
            )
        return self.vocabulary[token]

    @cached_property
    def spelt_bytes(self) -> Ints:
        """UTF-8 bytes that each id spells, (size,); none for the tokens around a document.

        Exact for byte-level tokenizers; of others the characters of the piece, with the mark of a space as one byte.
        """
        level = "ByteLevel" in json.dumps(self.content.get("pre_tokenizer"))
        around = {self.end_of_document, self.begin_of_document}
        added = {token["content"] for token in self.added_tokens}
        spelt = np.zeros(self.size, np.int64)
        for piece, number in self.vocabulary.items():
            if piece in around:
                continue
            if level and piece not in added:
                spelt[number] = len(piece)  # a character stands for a byte
            elif _BYTE.fullmatch(piece):
                spelt[number] = 1
            else:
                spelt[number] = len(piece.replace("\u2581", " ").removeprefix("##").encode())
        return spelt

    def decode(self, ids: npt.NDArray[Any]) -> str:
        """Ids as text, special tokens included."""
        text: str = self._reference.decode(ids.tolist(), skip_special_tokens=False)
        return text

    def encode(self, text: str) -> list[int]:
        """Ids of a text by ``tokenizers``: nothing is added, special tokens in it are text.

        A model may know a special token as one of its own pieces; the same characters are then spelt by others. One is
        among the ids only if it is a single character, or the unknown token for what the model does not know.
        """
        ids = _ids(self._encoder, text)
        # The id of the unknown token is mostly that of what is unknown: only a text that spells it is encoded again.
        spelt = {number for token, number in self._special.items() if token != self._unknown or token in text}
        return ids if spelt.isdisjoint(ids) else _ids(self._encoder_without_special, text)

    @cached_property
    def _reference(self) -> Any:
        return tokenizers.Tokenizer.from_str(self.json)

    @cached_property
    def _encoder(self) -> Any:
        return _encoder(self.plain)

    @cached_property
    def _special(self) -> dict[str, int]:
        """Tokens of several characters that are no text, and their ids: special ones, and those around a document."""
        added = [token["content"] for token in self.added_tokens if token["special"]]
        tokens = filter(None, [*added, self.end_of_document, self.begin_of_document])
        return {token: self.vocabulary[token] for token in tokens if len(token) > 1}

    @cached_property
    def unknown_id(self) -> int:
        """Id of the token of what the model does not know, -1 if it has none."""
        return self.vocabulary.get(self._unknown or "", -1)

    @property
    def _unknown(self) -> str | None:
        """The token of what the model does not know."""
        model = self.content["model"]
        if model.get("unk_id") is not None:
            return str(model["vocab"][model["unk_id"]][0])
        token: str | None = model.get("unk_token")
        return token

    @cached_property
    def _encoder_without_special(self) -> Any:
        content = json.loads(self.plain)
        for token in self._special:
            content = _without(content, token)
        return _encoder(dumped(content))

    @cached_property
    def vocabulary(self) -> dict[str, int]:
        """Id of each token, with the added ones."""
        ids: dict[str, int] = self._reference.get_vocab(with_added_tokens=True)
        return ids

    def __reduce__(self) -> tuple[type[Tokenizer], tuple[str | None, ...]]:
        return Tokenizer, (self.json, self.end_of_document, self.begin_of_document)


def dumped(content: Mapping[str, Any]) -> str:
    """The content of a ``tokenizer.json`` as it is stored."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _encoder(plain: str) -> Any:
    encoder = tokenizers.Tokenizer.from_str(plain)
    encoder.encode_special_tokens = True
    return encoder


def _ids(encoder: Any, text: str) -> list[int]:
    # A batch, even of one, is encoded without the GIL, and the fast one without offsets into the text.
    with reporting_panics(text):
        (encoded,) = encoder.encode_batch_fast([text], add_special_tokens=False)
    ids: list[int] = encoded.ids
    return ids


@contextmanager
def reporting_panics(text: object) -> Iterator[None]:
    """Raise EncodingError for what a library raises at a text, except MemoryError; a panic of Rust is no Exception."""
    try:
        yield
    except MemoryError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise EncodingError(f"tokenizing a text that begins {text!r:.60} ... fails: {error}") from error


def _without(content: dict[str, Any], token: str) -> dict[str, Any]:
    """The content of a ``tokenizer.json`` in which this token has a name that is in no text, and its id."""
    name, model = f"\U0010ffff{token}", content["model"]
    if isinstance(model["vocab"], list):
        model["vocab"] = [[name if piece == token else piece, score] for piece, score in model["vocab"]]
    else:
        model["vocab"] = {name if piece == token else piece: number for piece, number in model["vocab"].items()}
    if "merges" in model:
        pairs = [pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"]]
        model["merges"] = [pair for pair in pairs if token not in (*pair, "".join(pair))]
    if model.get("unk_token") == token:
        model["unk_token"] = name
    for added in content.get("added_tokens") or []:
        if added["content"] == token:
            added |= {"content": name, "special": True}
    return content


def load_tokenizer(section: TextSection) -> Tokenizer:
    """The tokenizer at ``tokenizer.path``, as :func:`read_tokenizer` reads it."""
    source = section.source
    return read_tokenizer(
        section.tokenizer.path, "text.tokenizer.path", source.end_of_document, source.begin_of_document
    )


def read_tokenizer(
    file: str, setting: str, end_of_document: str | None = None, begin_of_document: str | None = None
) -> Tokenizer:
    """A tokenizer of a ``tokenizer.json``, of the folder that holds it or GPT-2's files, or of the content itself.

    Raises ParamsError, which names the ``setting``, if it is missing, not a ``tokenizer.json``, has no token or ids
    beyond :data:`MOST_IDS`, makes too much of a text, or lacks the tokens around a document.
    """
    around = end_of_document, begin_of_document
    if file.startswith("{"):
        return _checked(file, *around, "text.tokenizer")
    path = Path(file)
    if not (path / TOKENIZER_FILES[0]).is_file() and gpt2_files(path):
        return _checked(gpt2_content(path, [*filter(None, around)], setting), *around, file)
    if path.is_dir():
        path = next((path / name for name in TOKENIZER_FILES if (path / name).exists()), path / TOKENIZER_FILES[0])
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        stage = "'dvc repro tokenizer', or outside of a project with " if setting == "text.tokenizer.path" else ""
        raise ParamsError(
            f"{setting}: no tokenizer at {path}; make it with {stage}'outofcore tokenizer RAW {path}'"
        ) from error
    except UnicodeDecodeError as error:
        raise ParamsError(f"{setting}: {path}: expected a tokenizer.json, got what is {advice(path.name)}") from error
    return _checked(text, *around, f"{setting}: {path}")


@lru_cache(maxsize=4)
def _checked(text: str, end_of_document: str | None, begin_of_document: str | None, path: str) -> Tokenizer:
    tokenizer = Tokenizer(text, end_of_document, begin_of_document)
    try:
        vocabulary = tokenizer.vocabulary
    except Exception as error:
        raise ParamsError(f"{path}: expected a tokenizer.json, {error}") from error
    if not vocabulary or tokenizer.size > MOST_IDS:
        got = f"one of {tokenizer.size - 1:,}" if vocabulary else "none"
        raise ParamsError(f"{path}: expected a tokenizer.json with ids from 0 to at most {MOST_IDS - 1:,}, got {got}")
    if (growth := most_growth(tokenizer.content.get("normalizer"))) > MOST_GROWTH:
        raise ParamsError(
            f"{path}: expected a normalizer that makes at most {MOST_GROWTH} bytes of one, got one that may make "
            f"{growth:,.0f}: a text would take all memory; change its Replace or Prepend"
        )
    _ = tokenizer.end_id, tokenizer.begin_id
    return tokenizer


def gpt2_files(folder: Path) -> tuple[Path, Path] | None:
    """The vocabulary and the merges in a folder, if it has both."""
    pairs = [(folder / vocabulary, folder / merges) for vocabulary, merges in GPT2_FILES]
    return next((pair for pair in pairs if all(path.is_file() for path in pair)), None)


def gpt2_content(folder: Path, special: Sequence[str], setting: str) -> str:
    """The ``tokenizer.json`` of GPT-2's files; of the ``special`` tokens, those that it has are special.

    Raises ParamsError, which names the ``setting``, if the folder lacks them, or has those of a tokenizer that splits
    text in another way (Qwen's).
    """
    files = gpt2_files(folder)
    if files is None:
        wanted = ", or ".join(" and ".join(names) for names in GPT2_FILES)
        raise ParamsError(f"{setting}: expected a folder with {wanted}, found no such pair in {folder}")
    try:
        tokenizer = byte_level(models.BPE.from_file(*map(str, files)))
        config = folder / "tokenizer_config.json"
        own = parse_json(config.read_text(encoding="utf-8")) if config.is_file() else {}
        kind = str(own.get("tokenizer_class") or "GPT2Tokenizer")
    except Exception as error:
        raise ParamsError(
            f"{setting}: expected GPT-2's {files[0].name} and {files[1].name} in {folder}, {error}"
        ) from error
    if not kind.startswith("GPT2"):
        raise ParamsError(
            f"{setting}: expected GPT-2's files in {folder}, its tokenizer_config.json says {kind}; save its "
            "tokenizer.json there"
        )
    tokenizer.add_special_tokens([token for token in special if tokenizer.token_to_id(token) is not None])
    content: str = tokenizer.to_str()
    return content


def byte_level(model: models.Model) -> tokenizers.Tokenizer:
    """A tokenizer that spells any text, by bytes."""
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer
