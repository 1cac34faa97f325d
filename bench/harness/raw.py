"""Made-up raw input, from the samples of the domains.

Games are those of the samples, each cut off at many places: every cut is another game, of other players.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cached_property
from pathlib import Path

import numpy as np

from harness.stores import convert, files_of, section_of
from outofcore.domains.registry import get_domain
from outofcore.domains.text.tokens.learn import texts
from outofcore.tokenizer import train_tokenizer

SHORTEST = 30  # moves that a game keeps at least
_GAME = re.compile(r"(?P<tags>(?:\[[^\n]*\n)+)\n(?P<moves>[^\n]+) (?P<result>\S+)\n")
_WORD = re.compile(r"\{[^}]*\}|\S+")
_NODE = re.compile(rb";[BW]\[[^]]*\]")


class Inputs:
    """The input of all questions: the files that were given, or made up in a folder when first asked for."""

    def __init__(
        self, folder: Path, chess: Path | None = None, go: Path | None = None, text: Path | None = None
    ) -> None:
        self._folder = folder
        self._given = {"chess": chess, "go": go, "text": text}

    def __getitem__(self, name: str) -> Path:
        return Path(getattr(self, name)).resolve()

    @cached_property
    def chess(self) -> Path:
        """A PGN file."""
        return self._given["chess"] or make_chess(self._folder, 4, 20)

    @cached_property
    def go(self) -> Path:
        """SGF, a file per player."""
        return self._given["go"] or make_go(self._folder, 3, 10)

    @cached_property
    def text(self) -> Path:
        """Documents."""
        return self._given["text"] or make_text(self._folder, 20)

    @cached_property
    def tokenizer(self) -> Path:
        """Learnt from them."""
        return learn_tokenizer(self.text, self._folder)

    @cached_property
    def store(self) -> Path:
        """All games as a store."""
        store = self._folder / "chess.zarr"
        convert("chess", section_of("chess", self["chess"]), store)
        return store


def make_chess(folder: Path, samples: int, cuts: int) -> Path:
    """A PGN file of the games of so many samples, each cut off at so many places."""
    generator = np.random.default_rng(0)
    path = folder / "made.pgn"
    with path.open("w", encoding="utf-8") as out:
        for sample in _samples("chess", folder, samples):
            for game in _GAME.finditer((sample / "games.pgn").read_text()):
                words = _WORD.findall(game["moves"])
                ends = generator.integers(min(SHORTEST, len(words)), len(words) + 1, cuts)
                for number, end in enumerate(ends):
                    tags = game["tags"].replace('[White "', f'[White "{number} ')
                    out.write(f"{tags}\n{' '.join(words[:end])} {game['result']}\n\n")
    return path


def make_go(folder: Path, samples: int, cuts: int) -> Path:
    """A folder with a file for each player of so many samples, their games cut off at so many places."""
    generator = np.random.default_rng(0)
    raw = folder / "made_go"
    raw.mkdir()
    for number, sample in enumerate(_samples("go", folder, samples)):
        for file in sorted(sample.iterdir()):
            with (raw / f"{number}_{file.name}").open("wb") as out:
                for line in file.read_bytes().splitlines():
                    game = re.sub(rb"P([BW])\[", rb"P\1[%d " % number, line)
                    ends = [node.end() for node in _NODE.finditer(game)]
                    if len(ends) > SHORTEST:
                        places = generator.integers(SHORTEST, len(ends), cuts)
                        out.writelines(game[: ends[place]] + b")\n" for place in places)
    return raw


def make_text(folder: Path, samples: int) -> Path:
    """A folder with the texts of so many samples."""
    raw = folder / "made_text"
    raw.mkdir()
    for number, sample in enumerate(_samples("text", folder, samples)):
        (sample / "stories.jsonl.zst").rename(raw / f"{number}.jsonl.zst")
    return raw


def learn_tokenizer(raw: Path, folder: Path) -> Path:
    """A tokenizer learnt from text, with the vocabulary that is the default."""
    path = folder / "tokenizer.json"
    train_tokenizer(raw, path)
    return path


def lengthen(source: Path, folder: Path, size: int, file_bytes: int = 760_000, files: int = 40) -> Path:
    """Plain files with text of ``size`` bytes: the paragraphs of the documents, permuted anew for every repetition.

    A file is a document of the length of a novel, and every split needs some: there are at least ``files``.
    """
    section = section_of("text", source)
    documents = [
        document.replace(b"\r\n", b"\n") for file in files_of("text", section) for document in texts(file, section, [])
    ]
    paragraphs = [part + b"\n\n" for document in documents for part in document.split(b"\n\n")]
    generator = np.random.default_rng(0)
    folder.mkdir()
    written = number = 0
    piece = min(file_bytes, size // files)
    rest = b""
    while written < size:
        rest += b"".join(paragraphs[place] for place in generator.permutation(len(paragraphs)))
        while written < size and (cut := rest.find(b"\n\n", piece) + 2) > 1:
            (folder / f"{number}.txt").write_bytes(rest[:cut])
            rest, written, number = rest[cut:], written + cut, number + 1
    return folder


def _samples(domain: str, folder: Path, count: int) -> Iterator[Path]:
    """Folders with the sample of a domain, from other seeds."""
    places = [folder / f"{domain}_{number}" for number in range(count)]
    with ProcessPoolExecutor(2) as pool:
        yield from pool.map(write_sample, [domain] * count, places, range(count))


def write_sample(domain: str, folder: Path, seed: int) -> Path:
    """A folder with the sample of a domain."""
    folder.mkdir()
    get_domain(domain).sample(folder, np.random.default_rng(seed))
    return folder
