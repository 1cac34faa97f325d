from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from outofcore.store import encoding_queue
from outofcore.store.codecs import CRC_BYTES, ChunkCodec
from outofcore.store.encoding_queue import Chunk, EncodingQueue


def chunks(number: int) -> list[Chunk]:
    return [[np.full(3, 2 * number, np.uint8)], [np.full(3, 2 * number + 1, np.uint8)]]


def encode(group: list[Chunk]) -> list[list[bytes]]:
    return [[array.tobytes() for array in chunk] for chunk in group]


def test_chunks_are_written_in_order_whichever_is_encoded_first() -> None:
    released, written = threading.Event(), []
    with ThreadPoolExecutor(2) as encoders:
        queue = EncodingQueue(encoders)
        queue.put(chunks(0), lambda group: encode(group) if released.wait() else [], written.extend)
        for number in range(1, 10):
            queue.put(chunks(number), encode, written.extend)
        assert not written
        released.set()
        queue.finish()
    assert b"".join(written) == bytes(np.repeat(np.arange(20, dtype=np.uint8), 3))


def test_at_most_so_many_groups_of_chunks_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding_queue, "AHEAD", 3)
    written: list[bytes] = []
    with ThreadPoolExecutor(1) as encoders:
        queue = EncodingQueue(encoders)
        for number in range(10):
            queue.put(chunks(number), encode, written.extend)
            assert len(written) >= 2 * (number - 2)
            assert queue.bytes_waiting == 3 * (2 * (number + 1) - len(written))


@pytest.mark.parametrize(("dtype", "filler"), [(object, 0), (np.dtypes.StringDType(), "")])
def test_texts_take_no_more_than_is_counted(dtype: Any, filler: Any) -> None:
    codec = ChunkCodec("none", 0, "string")
    with ThreadPoolExecutor(1) as encoders:
        queue = EncodingQueue(encoders)
        texts = np.array(["\N{GRINNING FACE}" * 50] * 100 + [filler] * 20, dtype)
        queue.put([[texts]], lambda _: [[codec.encode(texts)]], lambda _: None)
        assert len(codec.encode(texts)) - 4 - CRC_BYTES == queue.bytes_waiting


def test_a_chunk_that_cannot_be_encoded_is_never_passed_over() -> None:
    written: list[bytes] = []
    with ThreadPoolExecutor(1) as encoders:
        queue = EncodingQueue(encoders)
        queue.put(chunks(0), lambda group: [[b"%d" % (1 // len(group[5:]))]], written.extend)
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                queue.finish()
    assert not written
