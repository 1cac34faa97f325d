"""Keys and splits of trials: what shows the same is in one split, and every split with a share gets its trials.

Trials are ranked by the hash of their key, within a session; those of a film that several sessions show, and those of
a session that has fewer than there are splits, over all sessions. The first ones of a rank are for validation, the
next ones for the test, by their shares and at least one each. The choice depends only on keys and seed.

Of a raw input that grows, a session is divided alone, and another one may show the same: a film's split is drawn by
its key, as that of a game is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from outofcore.domains.neural.session_survey import SessionSurvey
from outofcore.domains.neural.trials import Trials
from outofcore.domains.sections import SplitSection
from outofcore.domains.splits import SPLITS, assign, shares
from outofcore.ndarrays import Doubles, Ints
from outofcore.raw.unit import KEY_BYTES

Keys = npt.NDArray[np.uint8]


def divide(surveys: Mapping[str, SessionSurvey], section: SplitSection, *, grows: bool = False) -> dict[str, Trials]:
    """The trials of each session with their keys and splits."""
    counts = [len(survey.trials) for survey in surveys.values()]
    edges, session = np.cumsum([0, *counts]), np.repeat(np.arange(len(surveys)), counts)
    keys = np.concatenate([np.empty((0, KEY_BYTES), np.uint8), *(_keys(survey) for survey in surveys.values())])
    _join_by_picture(keys, list(surveys.values()), edges)
    distinct, group = _distinct(keys)
    split = _ranked(distinct, group, session, section)[group]
    if grows:
        films = [(survey.trials.repeat >= 0) | (survey.pictures is not None) for survey in surveys.values()]
        split = np.where(np.concatenate([np.zeros(0, bool), *films]), assign(keys, section), split)
    return {
        name: replace(survey.trials, key=keys[first:last], split=split[first:last])
        for (name, survey), (first, last) in zip(surveys.items(), pairwise(edges.tolist()), strict=True)
    }


def _distinct(keys: Keys) -> tuple[Keys, Ints]:
    """Distinct keys, ascending, and the number of each key among them."""
    distinct, number = np.unique(np.ascontiguousarray(keys).view(">u8"), axis=0, return_inverse=True)
    return np.ascontiguousarray(distinct).view(np.uint8), number.reshape(-1)


def _keys(survey: SessionSurvey) -> Keys:
    """Keys (trials, 16): repeats of a named stimulus share one in all sessions."""
    keys = np.empty((len(survey.trials), KEY_BYTES), np.uint8)
    starts, films = survey.trials.start.tolist(), survey.trials.repeat.tolist()
    for number, (start, film) in enumerate(zip(starts, films, strict=True)):
        content = survey.fingerprint + start.to_bytes(8, "little")
        if survey.pictures is None and film >= 0:
            content = b"repeat" + film.to_bytes(8, "little")
        keys[number] = np.frombuffer(hashlib.blake2b(content, digest_size=KEY_BYTES).digest(), np.uint8)
    return keys


def _join_by_picture(keys: Keys, surveys: Sequence[SessionSurvey], first: Ints) -> None:
    """Give trials that show a picture in common, directly or through others, the key of one of their pictures."""
    known = [
        (start, survey.pictures) for start, survey in zip(first.tolist(), surveys, strict=False) if survey.pictures
    ]
    if not known:
        return
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    trial = np.concatenate([start + pictures.trial for start, pictures in known])
    contents, content = _distinct(np.concatenate([pictures.content for _, pictures in known]))
    size = len(keys) + len(contents)
    edges = csr_array((np.ones(len(trial), bool), (trial, len(keys) + content)), shape=(size, size))
    joined = connected_components(edges, directed=False)[1]
    first_content = np.full(size, len(contents))
    np.minimum.at(first_content, joined[len(keys) :], np.arange(len(contents)))
    chosen = first_content[joined[: len(keys)]]
    shows = chosen < len(contents)
    keys[shows] = contents[chosen[shows]]


def _ranked(keys: Keys, group: Ints, session: Ints, section: SplitSection) -> npt.NDArray[np.int8]:
    """Split of each group, by its key (groups, 16); ``group`` and ``session`` are those of each trial."""
    share = _shares(section)
    wanted = np.flatnonzero(share)
    shown = np.bincount(group, minlength=len(keys))
    first, last = np.full(len(keys), len(session)), np.zeros(len(keys), np.int64)
    np.minimum.at(first, group, session)
    np.maximum.at(last, group, session)
    pool = np.where(first == last, 1 + 2 * last + (shown > 1), 0)  # a session's films, and its other trials
    pool[np.bincount(pool, minlength=1)[pool] < len(wanted)] = 0
    order = np.lexsort((shares(keys, section.seed), pool))
    split = np.zeros(len(keys), np.int8)
    for ranked in np.split(order, np.flatnonzero(np.diff(pool[order])) + 1):
        if len(ranked) >= len(wanted):
            val, test = _quotas(len(ranked), share)
            split[ranked[: val + test]] = SPLITS.index("test")
            split[ranked[:val]] = SPLITS.index("val")
        else:
            # A film or two among many other trials are for validation first, which measures repeats.
            rare = 2 * shown[ranked].sum() <= len(group)
            split[ranked] = sorted(wanted, key=lambda place: rare and SPLITS[place] != "val")[: len(ranked)]
    return split


def _shares(section: SplitSection) -> Doubles:
    val, test = section.shares.values()
    return np.array([max(0.0, round(1 - val - test, 9)), val, test])


def _quotas(count: int, share: Doubles) -> tuple[int, int]:
    """How many of ``count`` groups are for val and test: by their shares, and at least one if there is a share."""
    val, test = (max(int(count * part + 1e-9), int(part > 0)) for part in share[1:])
    return (val if share[0] else count - test), test


def split_notes(trials: Trials, section: SplitSection) -> dict[str, str]:
    """What a session lacks in its splits, by subject."""
    group, notes = _distinct(trials.key)[1], dict[str, str]()
    if len(trials) and not np.isin(np.flatnonzero(_shares(section)), trials.split).all():
        notes["trials"] = (
            "too few trials and films for all splits, some are empty there (trials that show the same picture are in "
            "one split); make trials shorter (source.trial_bins, where files mark none), or mark those that show the "
            "same (source.names.repeat)"
        )
    films = trials.split[np.bincount(group)[group] > 1]
    if len(films) and section.val and SPLITS.index("val") not in films:
        notes["films"] = (
            "no repeated film is in val, so explainable variance is not measured; mark more films "
            "(source.names.repeat), or set another splits.seed"
        )
    return notes
