"""The set of keys is exact, whatever is added in whatever portions."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from outofcore.conversion.seen import SeenKeys

# Keys that share their first or last half are the hard ones.
WORDS = st.sampled_from([0, 1, 2, 2**63, 2**64 - 1])
KEYS = st.tuples(WORDS, WORDS).map(lambda pair: pair[0].to_bytes(8, "big") + pair[1].to_bytes(8, "big"))


def array(keys: list[bytes]) -> np.ndarray:
    return np.frombuffer(b"".join(keys), np.uint8).reshape(-1, 16)


@given(st.lists(st.lists(KEYS, min_size=1, max_size=12), max_size=12))
def test_it_answers_as_a_set_does(portions: list[list[bytes]]) -> None:
    seen, reference = SeenKeys(), set()
    for portion in portions:
        expected = []
        for key in portion:
            expected.append(key not in reference)
            reference.add(key)
        assert seen.add(array(portion)).tolist() == expected
    assert len(seen) == len(reference)


def test_many_keys_with_one_first_half() -> None:
    keys = np.zeros((20_000, 16), np.uint8)
    keys[:, 8:] = np.random.default_rng(1).permutation(20_000).astype(">u8").view(np.uint8).reshape(-1, 8)
    seen = SeenKeys()
    for first in range(0, 10_000, 500):
        assert seen.add(keys[first : first + 500]).all()
    assert seen.add(keys).tolist() == [False] * 10_000 + [True] * 10_000


def test_all_keys_come_sorted() -> None:
    generator = np.random.default_rng(4)
    seen, expected = SeenKeys(), set[bytes]()
    for size in (5000, 3, 700, 0, 9000):
        keys = generator.integers(0, 4, (size, 16)).astype(np.uint8)
        keys[:, 3:13] = 0
        seen.add(keys)
        expected |= {key.tobytes() for key in keys}
    high, low = seen.keys()
    assert [
        int(first).to_bytes(8, "big") + int(second).to_bytes(8, "big") for first, second in zip(high, low, strict=True)
    ] == sorted(expected)
    assert SeenKeys().keys().shape == (2, 0)
