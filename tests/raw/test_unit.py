"""Keys of records, against hashlib."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from outofcore.raw.unit import difference, keys_of


@pytest.mark.parametrize("size", [8, 16, 64])
def test_keys_are_those_of_hashlib_at_every_length(size: int) -> None:
    rng = np.random.default_rng(size)
    lengths = [*range(300), 1000, 4096, 5000]
    ends = np.cumsum(lengths)
    content = rng.integers(0, 256, ends[-1], np.uint8)
    spans = np.stack([ends - lengths, ends], axis=1)
    expected = [hashlib.blake2b(content[start:stop], digest_size=size).digest() for start, stop in spans]
    assert [key.tobytes() for key in keys_of([(content, spans)], size)] == expected


def test_a_record_of_several_pieces_is_hashed_as_one() -> None:
    words, letters = np.arange(40, dtype=np.uint16), np.frombuffer(b"abcdefgh" * 40, np.uint8)
    by_word, by_letter = np.array([[0, 80], [4, 4], [10, 30]]), np.array([[5, 5], [0, 300], [7, 8]])
    expected = [
        hashlib.blake2b(words.tobytes()[a:b] + letters.tobytes()[c:d] + words.tobytes()[a:b], digest_size=16).digest()
        for (a, b), (c, d) in zip(by_word, by_letter, strict=True)
    ]
    found = keys_of([(words, by_word), (letters, by_letter), (words, by_word)])
    assert [key.tobytes() for key in found] == expected


def test_no_record_has_no_key() -> None:
    assert keys_of([(np.zeros(0, np.uint8), np.zeros((0, 2), np.int64))]).shape == (0, 16)


def test_a_lack_of_memory_is_no_difference() -> None:
    def audit() -> str:
        raise MemoryError

    with pytest.raises(MemoryError):
        difference(audit)
