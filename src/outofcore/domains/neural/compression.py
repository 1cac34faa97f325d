"""Measure codecs on a sample of the frames, on this machine."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.neural.convert import convert
from outofcore.domains.neural.dtypes import StimulusType, bfloat16_values, encode, stored_as
from outofcore.domains.neural.params import NeuralSection
from outofcore.domains.neural.source import units_of
from outofcore.domains.neural.survey import look_at
from outofcore.raw.files import RawFile
from outofcore.store.codecs import ChunkCodec
from outofcore.store.schema import CodecName

SESSIONS = 6
UNITS = 2
# A session that the cutting process reads is sampled at its start.
UNITS_PASSED = 64
LEAST_SECONDS = 0.05
CODECS: tuple[CodecName, ...] = ("lz4", "zstd")


@dataclass(frozen=True)
class Compressed:
    """Measured effect of a codec on a sample of the frames."""

    dtype: StimulusType
    codec: CodecName
    share: float  # encoded bytes per decoded byte
    decoded_per_second: int  # bytes per second and thread


def sample_frames(files: Sequence[RawFile], section: NeuralSection) -> list[npt.NDArray[Any]]:
    """Frames of a few units of a few sessions, as stored; empty if none can be converted."""
    sessions = [each for each in look_at(files, section) if each[0].kind != "none"]
    step = -(-len(sessions) // SESSIONS) if sessions else 1
    frames = []
    for session, survey in sessions[::step]:
        passed = islice(units_of(session, survey, section), UNITS_PASSED)
        units = [unit for unit in passed if "piece" in unit.detail]
        for unit in units[:: max(1, len(units) // UNITS)][:UNITS]:
            rows = convert(unit, section).rows
            if len(rows["stim"]):
                frames.append(rows["stim"])
    return frames


def holding(frames: Sequence[npt.NDArray[Any]], dtype: StimulusType) -> tuple[StimulusType, ...]:
    """Types that can hold the sampled pixels, narrowest first."""
    wide: tuple[StimulusType, ...] = ("bfloat16", "float32")
    whole = dtype == "uint8" or all(encode(_values(each, dtype), "uint8")[1] is None for each in frames)
    return ("uint8", *wide) if whole else wide


def measure(
    frames: Sequence[npt.NDArray[Any]], dtype: StimulusType, kinds: Sequence[StimulusType], section: NeuralSection
) -> tuple[Compressed, ...]:
    """Size and decoding speed of the frames with each codec and pixel type, in the store's chunks."""
    found = []
    for kind in kinds:
        chunks = list(_chunks(frames, dtype, kind, section.store.chunk_rows))
        for name in CODECS if chunks else ():
            codec = ChunkCodec(name, section.store.level, str(stored_as(kind)))
            encoded = [codec.encode(chunk) for chunk in chunks]
            decoded = sum(chunk.nbytes for chunk in chunks)
            speed = int(_decoding_speed(codec, encoded, chunks))
            found.append(Compressed(kind, name, sum(map(len, encoded)) / decoded, speed))
    return tuple(found)


def _chunks(
    frames: Sequence[npt.NDArray[Any]], dtype: StimulusType, kind: StimulusType, rows: int
) -> Iterator[npt.NDArray[Any]]:
    for each in frames:
        stored = each if kind == dtype else encode(_values(each, dtype), kind)[0]
        for start in range(0, len(stored), rows):
            yield np.ascontiguousarray(stored[start : start + rows])


def _values(frames: npt.NDArray[Any], dtype: StimulusType) -> npt.NDArray[Any]:
    return bfloat16_values(frames) if dtype == "bfloat16" else frames


def _decoding_speed(codec: ChunkCodec, encoded: Sequence[bytes], chunks: Sequence[npt.NDArray[Any]]) -> float:
    """Bytes per second of the fastest of a few passes, least disturbed by other load."""
    rooms = [np.empty_like(chunk) for chunk in chunks]
    best, spent = 0.0, 0.0
    while spent < LEAST_SECONDS:
        started = time.perf_counter()
        for content, room in zip(encoded, rooms, strict=True):
            codec.decode(content, room)
        seconds = time.perf_counter() - started
        spent += seconds
        best = max(best, sum(room.nbytes for room in rooms) / seconds)
    return best
