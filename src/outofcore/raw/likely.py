"""Files that people have and that nothing here reads: what to do with each, by a pattern of its name."""

from __future__ import annotations

from fnmatch import fnmatchcase

PICKLED = (
    "pickled Python objects, which may run code when they are read; save the arrays as .npz or .h5, text as .jsonl"
)
NO_READER = "of no kind that is read"

LIKELY = (
    *((f"*{suffix}", PICKLED) for suffix in (".pt", ".pth", ".pkl", ".pickle")),
    (
        "training.*.gz",
        "a chunk of lc0's self-play, planes without their game; convert the PGN of lc0's matches",
    ),
    ("*.binpack", "positions for Stockfish's network, without their games; convert the PGN that they were made of"),
    ("*.epd", "positions without moves; 'outofcore predict' takes one as FEN, a game from it is PGN with a tag FEN"),
    ("*.cbh", "a ChessBase database; save it as PGN there"),
    ("*.cbv", "a ChessBase archive; save it as PGN there"),
    ("*.si4", "a Scid database; export it as PGN there"),
    ("*.si5", "a Scid database; export it as PGN there"),
    ("*.gib", "a game of Tygem; convert it to .sgf, with Sabaki for instance"),
    ("*.ngf", "a game of WBaduk; convert it to .sgf, with Sabaki for instance"),
    ("*.ugf", "a game of PandaNet; convert it to .sgf, with Sabaki for instance"),
    ("*.pbin", "token ids with pickled lengths (Modalities); write the ids as .bin or .npy"),
    ("*.model", "a tokenizer of SentencePiece; save it as tokenizer.json, and give that to text as its tokenizer"),
)
"""Patterns of lower-case names, and what a file of such a name is; the first counts."""


def advice(name: str) -> str:
    """Why a file of this name is not read, and what to do with it; NO_READER for any other."""
    base = name.lower().rpartition("/")[2]
    return next((what for pattern, what in LIKELY if fnmatchcase(base, pattern)), NO_READER)
