"""Pictures that trials show, where a session stores each picture once and numbers say which was on screen."""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from outofcore.domains.neural.bins import BinReader
from outofcore.domains.neural.clocks import BLOCK
from outofcore.domains.neural.dtypes import encode
from outofcore.domains.neural.params import SourceSection
from outofcore.domains.neural.recordings.arrays import RecordedArray, identify, take
from outofcore.domains.neural.session_survey import ShownPictures
from outofcore.domains.neural.streams import Streams
from outofcore.domains.neural.transforms import apply
from outofcore.domains.neural.trials import Trials, number_conditions
from outofcore.ndarrays import Bytes, Ints
from outofcore.raw.unit import KEY_BYTES

PASS_BYTES = 1 << 24
"""Bytes of pictures that are read at once."""


def find_pictures(
    reader: BinReader, streams: Streams, trials: Trials, source: SourceSection
) -> tuple[Trials, ShownPictures]:
    """The trials, as repeats of each other if they show the same pictures in the same order; and what each shows."""
    trial, number = _shown(reader, trials)
    known, place = np.unique(number, return_inverse=True)
    content, counts = _contents(streams.frames, known, streams.frame_shape, source)
    _, first, same = np.unique(content.view(">u8"), axis=0, return_index=True, return_inverse=True)
    picture = np.where(counts, known[first[same.reshape(-1)]], known)[place]
    change = np.append(True, (np.diff(trial) != 0) | (np.diff(picture) != 0))[: len(trial)]
    sequences = picture[change]
    bounds = np.searchsorted(trial[change], np.arange(len(trials) + 1)).tolist()
    repeat = np.full(len(trials), -1, np.int64)
    for row, (start, stop) in enumerate(pairwise(bounds)):
        if stop - start == 1:
            repeat[row] = sequences[start]
        elif stop > start:
            digest = hashlib.blake2b(sequences[start:stop].tobytes(), digest_size=8).digest()
            repeat[row] = int.from_bytes(digest, "little") >> 1
    condition, conditions = number_conditions(trials.start, trials.stop, repeat)
    trials = replace(trials, repeat=repeat, condition=condition, conditions=conditions)
    return trials, ShownPictures(trial[counts[place]], content[place[counts[place]]])


def lowest_number(numbers: RecordedArray) -> int | None:
    """The lowest number of a picture that is 0 or more, if there is any."""
    lowest = []
    for start in range(0, numbers.shape[0], BLOCK):
        shown = identify(numbers.read(start, min(start + BLOCK, numbers.shape[0])))
        lowest += [int(shown[shown >= 0].min())] if (shown >= 0).any() else []
    return min(lowest, default=None)


def _shown(reader: BinReader, trials: Trials) -> tuple[Ints, Ints]:
    """Trial and number of each stretch of bins of a trial that show one picture, in order."""
    stretches = [np.empty((2, 0), np.int64)]
    for first, numbers in reader.pictures():
        bins = np.arange(first, first + len(numbers))
        trial = np.searchsorted(trials.start, bins, side="right") - 1
        inside = (trial >= 0) & (bins < trials.stop[trial]) & (numbers >= 0)
        pairs = np.stack([trial, numbers])[:, inside]
        stretches.append(pairs[:, np.append(True, (np.diff(pairs) != 0).any(0))[: pairs.shape[1]]])
    trial, number = np.concatenate(stretches, axis=1)
    return trial, number


def _contents(
    frames: RecordedArray, numbers: Ints, shape: tuple[int, ...], source: SourceSection
) -> tuple[Bytes, npt.NDArray[np.bool_]]:
    """Digests (numbers, 16) of pictures as they are stored, and which of them distinguish trials.

    A damaged picture does not, nor one of a single grey level where most have several: it is shown between the others.
    """
    transforms = [step for step in source.transforms if step.name != "difference"]
    digests = np.zeros((len(numbers), KEY_BYTES), np.uint8)
    known, grey = np.zeros(len(numbers), bool), np.zeros(len(numbers), bool)
    step = max(1, PASS_BYTES // max(1, frames.dtype.itemsize * math.prod(frames.shape[1:])))
    for first in range(0, len(numbers), step):
        values, read = take(frames, numbers[first : first + step])
        stored, _ = encode(apply(values.reshape(-1, *shape), transforms), source.stimulus_dtype)
        known[first : first + step] = read
        grey[first : first + step] = (stored.reshape(len(stored), -1) == stored.reshape(len(stored), -1)[:, :1]).all(1)
        for place, picture in enumerate(stored, first):
            content = repr(picture.shape).encode() + picture.tobytes()
            digests[place] = np.frombuffer(hashlib.blake2b(content, digest_size=KEY_BYTES).digest(), np.uint8)
    return digests, known & ~grey if 2 * grey.sum() < len(grey) else known
