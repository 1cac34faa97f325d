"""Splits of few trials: each split with a share gets at least one, if there are enough.

Trials are split by the hash of their key, as everywhere. If that leaves a split empty (for a session or overall), or
validation without any of several repeated films, one trial or film is moved, in all sessions. The choice depends only
on keys and seed.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from outofcore.conversion.splits import SPLITS, assign
from outofcore.domains.neural.recordings.arrays import Ints
from outofcore.domains.sections import SplitSection
from outofcore.raw.unit import KEY_BYTES

if TYPE_CHECKING:
    from outofcore.domains.neural.survey import Survey

ENOUGH = 4096
"""Trials without repeats whose splits are examined before all others."""


def trial_keys(fingerprint: bytes, start: Ints, repeat: Ints) -> npt.NDArray[np.uint8]:
    """Keys (sequences, 16): runs of a trial, and repeats of a stimulus in any session, share one and so a split."""
    keys = np.empty((len(start), KEY_BYTES), np.uint8)
    for number, (first, shown) in enumerate(zip(start.tolist(), repeat.tolist(), strict=True)):
        content = b"repeat" + shown.to_bytes(8, "little") if shown >= 0 else fingerprint + first.to_bytes(8, "little")
        keys[number] = np.frombuffer(hashlib.blake2b(content, digest_size=KEY_BYTES).digest(), np.uint8)
    return keys


@dataclass(frozen=True)
class _Part:
    """A session: distinct keys of its trials, and of films that it shows more than once."""

    keys: list[bytes]
    films: list[bytes]


def settle(surveys: Mapping[str, Survey], shares: SplitSection) -> tuple[dict[bytes, str], list[str]]:
    """The split of each key reassigned from its hash, and one line per session with an empty split."""
    shared = (1 - shares.val - shares.test, shares.val, shares.test)
    wanted = [name for name, share in zip(SPLITS, shared, strict=True) if share > 0]
    parts = {name: _part(survey, shares, len(wanted)) for name, survey in surveys.items()}
    whole = _Part(list({key: None for part in parts.values() for key in part.keys}), [])
    held = _Held([whole, *parts.values()], shares, wanted)
    for split in wanted:
        for part in (whole, *parts.values()):
            held.fill(part, split)
        for part in parts.values() if split == "val" else ():
            held.show(part)
    return held.moved, _notes(held, parts)


def _notes(held: _Held, parts: Mapping[str, _Part]) -> list[str]:
    few = [name for name, part in parts.items() if part.keys and held.lacks_split(part)]
    unseen = [name for name, part in parts.items() if held.lacks_film(part)]
    lines = []
    if few:
        lines.append(
            f"{_listed(few)}: too few trials and films for all splits, some are empty there; make trials shorter "
            "(source.trial_bins, where files mark none), or mark fewer of them as one film (source.names.repeat)"
        )
    if unseen:
        lines.append(
            f"{_listed(unseen)}: no repeated film is in val, so explainable variance is not measured; mark more "
            "films (source.names.repeat), or set another splits.seed"
        )
    return lines


def _listed(names: Sequence[str]) -> str:
    return names[0] + (f" and {len(names) - 1} more sessions" if len(names) > 1 else "")


def _part(survey: Survey, shares: SplitSection, splits: int) -> _Part:
    trials = survey.trials
    alone = np.flatnonzero(trials.repeat < 0)
    few = trial_keys(survey.fingerprint, trials.start[alone[:ENOUGH]], trials.repeat[alone[:ENOUGH]])
    if len(set(assign(few, shares).tolist())) < splits:
        few = trial_keys(survey.fingerprint, trials.start[alone], trials.repeat[alone])
    shown, count = np.unique(trials.repeat[trials.repeat >= 0], return_counts=True)
    films = [key.tobytes() for key in trial_keys(b"", shown, shown)]
    repeated = [key for key, times in zip(films, count.tolist(), strict=True) if times > 1]
    return _Part([*(key.tobytes() for key in few), *films], repeated)


class _Held:
    """The split of each key, and the number of keys per session and split."""

    def __init__(self, parts: Sequence[_Part], shares: SplitSection, wanted: Sequence[str]) -> None:
        self._wanted, self._seed = wanted, shares.seed.to_bytes(8, "little")
        self._owners: dict[bytes, list[_Part]] = {}
        for part in parts:
            for key in part.keys:
                self._owners.setdefault(key, []).append(part)
        keys = np.frombuffer(b"".join(self._owners), np.uint8).reshape(-1, KEY_BYTES)
        places = assign(keys, shares).tolist()
        self._split = {key: SPLITS[place] for key, place in zip(self._owners, places, strict=True)}
        self._counts = {id(part): Counter(self._split[key] for key in part.keys) for part in parts}
        self.moved: dict[bytes, str] = {}

    def fill(self, part: _Part, split: str) -> None:
        """Move a key into a split that a session lacks, if it has at least as many keys as splits."""
        if len(part.keys) >= len(self._wanted) and not self._counts[id(part)][split]:
            self._move(part.keys, split)

    def show(self, part: _Part) -> None:
        """Move a repeated film into validation, if there are several and none is there."""
        if len(part.films) > 1 and self.lacks_film(part):
            self._move(part.films, "val")

    def lacks_split(self, part: _Part) -> bool:
        """Whether a session has no key in a split."""
        return not all(self._counts[id(part)][split] for split in self._wanted)

    def lacks_film(self, part: _Part) -> bool:
        """Whether a session has repeated films but none in validation."""
        wanted = bool(part.films) and "val" in self._wanted
        return wanted and not any(self._split[film] == "val" for film in part.films)

    def _move(self, keys: Sequence[bytes], split: str) -> None:
        free = [key for key in keys if self._may_leave(key, split)]
        if not free:
            return
        # Prefer one shared by few sessions, so that few others change.
        key = min(free, key=lambda key: (len(self._owners[key]), hashlib.blake2b(self._seed + key).digest()))
        for part in self._owners[key]:
            self._counts[id(part)].subtract([self._split[key]])
            self._counts[id(part)][split] += 1
        self._split[key] = self.moved[key] = split

    def _may_leave(self, key: bytes, split: str) -> bool:
        """Whether a key can move without emptying the split of an earlier session."""
        now = self._split[key]
        if now == split:
            return False
        settled = [part for part in self._owners[key] if len(part.keys) >= len(self._wanted)]
        return self._wanted.index(now) > self._wanted.index(split) or all(
            self._counts[id(part)][now] > 1 for part in settled
        )
