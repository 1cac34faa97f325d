"""Obtain a tokenizer: trained on the text, or from the user's files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from outofcore.display.bar import Bar
from outofcore.domains.text.documents.records import read_documents
from outofcore.domains.text.params import TextSection
from outofcore.domains.text.source import cut
from outofcore.domains.text.tokens.tokenizer import byte_level, dumped, gpt2_content, read_tokenizer
from outofcore.errors import ParamsError
from outofcore.raw.files import RawFile
from outofcore.system.durable import replace_text, writing

# The trainer counts words in parallel by chunk; the result depends on the chunks, so their size is fixed.
CHUNK_BYTES = 65_536
MOST_TOKENIZER_BYTES = 1 << 30
SAMPLE_BYTES = 16 << 20
# No token: without one for what it does not know, a BPE drops it.
_UNKNOWN = "<unknown character>"


def write_tokenizer(path: Path, section: TextSection, files: Sequence[RawFile]) -> str:
    """Write a tokenizer to a file; returns its content. Parameters and errors as for :func:`make_tokenizer`."""
    content = make_tokenizer(section, files)
    with writing(path):
        replace_text(path, content)
    return content


def is_tokenizer(path: Path) -> bool:
    """Whether a file is a ``tokenizer.json``; one of over a gigabyte is something else."""
    try:
        return (
            path.is_file() and path.stat().st_size <= MOST_TOKENIZER_BYTES and bool(read_tokenizer(str(path), "file"))
        )
    except ParamsError:
        return False


def make_tokenizer(section: TextSection, files: Sequence[RawFile]) -> str:
    """Content of ``tokenizer.json`` for the tokenizer that the params ask for.

    Only a trained one reads the raw files. Raises ParamsError if a named file is missing or of another kind, or there
    is no text.
    """
    if section.tokenizer.learnt:
        return _train(section, files)
    if section.tokenizer.kind == "gpt2":
        return gpt2_content(Path(section.tokenizer.given), section.source.tokens, "text.tokenizer.given")
    return dumped(json.loads(read_tokenizer(section.tokenizer.given, "text.tokenizer.given").json))


def _train(section: TextSection, files: Sequence[RawFile]) -> str:
    why: list[str] = []
    chunks = filter(None, sample(section, files, why))
    first = next(chunks, None)
    if first is None:
        raise ParamsError(
            f"text.raw: no text to learn a tokenizer from in {len(files)} files, expected documents in UTF-8; tokens "
            "that are in a file already become a store by outofcore.write_store"
            + "".join(f"; the first that is not read: {detail}" for detail in why[:1])
        )
    learn = _bpe if section.tokenizer.kind == "bpe" else _characters
    with Bar() as bar:
        text: str = learn(_shown(chain([first], chunks), files, bar), section).to_str()
    return text


def _bpe(chunks: Iterator[str], section: TextSection) -> tokenizers.Tokenizer:
    tokenizer = byte_level(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=section.tokenizer.vocab_size,
        special_tokens=section.source.tokens,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(chunks, trainer)
    return tokenizer


def _characters(chunks: Iterator[str], section: TextSection) -> tokenizers.Tokenizer:
    """A BPE without merges: ids by code point, then the end of a document; an error at any other character."""
    alphabet = {character: number for number, character in enumerate(sorted(set(chain.from_iterable(chunks))))}
    tokenizer = tokenizers.Tokenizer(models.BPE(alphabet, [], unk_token=_UNKNOWN))
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens(section.source.tokens)
    return tokenizer


def _shown(chunks: Iterator[str], files: Sequence[RawFile], bar: Bar) -> Iterator[str]:
    """The chunks; a bar shows how much of the sample was read, then that the tokens are being learnt."""
    most = min(SAMPLE_BYTES, sum(file.bytes for file in files) or SAMPLE_BYTES)
    task = bar.add_task("tokenizer: reading a sample of the text", total=most)
    for chunk in chunks:
        bar.update(task, advance=len(chunk.encode()))
        yield chunk
    bar.update(task, description="tokenizer: learning the tokens", total=None)


def sample(section: TextSection, files: Sequence[RawFile], why: list[str]) -> Iterator[str]:
    """Training text of a tokenizer: the beginning of each raw file, by its share of ``SAMPLE_BYTES``.

    In chunks of at most 64 KiB that end with a document or a word. Why documents are not read is appended to ``why``.
    """
    total = sum(file.bytes for file in files)
    for file in files:
        # A dataset, which is a file of its own, states no size.
        left = -(-SAMPLE_BYTES * file.bytes // total) if total else SAMPLE_BYTES
        for document in texts(file, section, why):
            waiting = document[:left]
            left -= len(waiting)
            while len(waiting) > CHUNK_BYTES + 4:
                cut = max(0, waiting.rfind(b" ", 0, CHUNK_BYTES)) or CHUNK_BYTES
                yield waiting[:cut].decode(errors="ignore")
                waiting = waiting[cut:]
            yield waiting.decode(errors="ignore")
            if not left:
                break


def texts(file: RawFile, section: TextSection, why: list[str]) -> Iterator[bytes]:
    """The documents of a file."""
    for unit in cut([file], section):
        documents = read_documents(unit, section)
        why += [reject.detail for reject in (*unit.rejects, *documents.rejects)[:1]]
        yield from documents.texts
