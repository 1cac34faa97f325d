"""Made-up input for the benches, in the amount that a quick run takes.

Games of the samples, each cut off at many places: every cut is another game. Text and its tokenizer come from the
sample as well; recordings are made by the bench that reads them.
"""

from __future__ import annotations

import re
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from outofcore.domains.registry import get_domain
from outofcore.domains.text.documents.hub import open_raw
from outofcore.domains.text.params import TextSection
from outofcore.domains.text.tokens.learn import make_tokenizer

SHORTEST = 30
"""Moves that a game keeps at least."""
_GAME = re.compile(r"(?P<tags>(?:\[[^\n]*\n)+)\n(?P<moves>[^\n]+) (?P<result>\S+)\n")
_WORD = re.compile(r"\{[^}]*\}|\S+")
_NODE = re.compile(rb";[BW]\[[^]]*\]")


def make_chess(folder: Path, samples: int, cuts: int) -> Path:
    """A PGN file of the games of so many samples, each cut off at so many places."""
    generator = np.random.default_rng(0)
    path = folder / "made.pgn"
    with path.open("w", encoding="utf-8") as out:
        for sample in _samples("chess", folder, samples):
            for game in _GAME.finditer((sample / "games.pgn").read_text()):
                words = _WORD.findall(game["moves"])
                for end in generator.integers(min(SHORTEST, len(words)), len(words) + 1, cuts):
                    out.write(f"{game['tags']}\n{' '.join(words[:end])} {game['result']}\n\n")
    return path


def make_go(folder: Path, samples: int, cuts: int) -> Path:
    """A folder with a file for each player of so many samples, their games cut off at so many places."""
    generator = np.random.default_rng(0)
    made = folder / "made_go"
    made.mkdir()
    for number, sample in enumerate(_samples("go", folder, samples)):
        for file in sorted(sample.iterdir()):
            with (made / f"{number}_{file.name}").open("wb") as out:
                for line in file.read_bytes().splitlines():
                    # The players of another sample are others.
                    game = re.sub(rb"P([BW])\[", rb"P\1[%d " % number, line)
                    ends = [node.end() for node in _NODE.finditer(game)]
                    if len(ends) > SHORTEST:
                        places = generator.integers(SHORTEST, len(ends), cuts)
                        out.writelines(game[: ends[place]] + b")\n" for place in places)
    return made


def make_text(folder: Path, samples: int) -> Path:
    """A folder with the texts of so many samples."""
    made = folder / "made_text"
    made.mkdir()
    for number, sample in enumerate(_samples("text", folder, samples)):
        (sample / "stories.jsonl.zst").rename(made / f"{number}.jsonl.zst")
    return made


def learn_tokenizer(raw: Path, folder: Path) -> Path:
    """A tokenizer learnt from text, with the vocabulary that is the default."""
    section = TextSection.model_validate({"raw": str(raw)})
    path = folder / "tokenizer.json"
    path.write_text(make_tokenizer(section, open_raw(section)), encoding="utf-8", newline="\n")
    return path


def _samples(domain: str, folder: Path, count: int) -> list[Path]:
    """Folders with the sample of a domain, from other seeds."""
    places = [folder / f"{domain}_{number}" for number in range(count)]
    with ProcessPoolExecutor(2) as pool:
        return list(pool.map(sample, [domain] * count, places, range(count)))


def sample(domain: str, folder: Path, seed: int) -> Path:
    """A folder with the sample of a domain."""
    folder.mkdir()
    get_domain(domain).sample(folder, np.random.default_rng(seed))
    return folder
