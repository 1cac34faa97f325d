from __future__ import annotations

from itertools import islice

import torch

from outofcore.training.feed import Feed
from tests.training.small import ListLoader, columns


def test_the_state_of_a_batch_leads_to_the_next_one():
    data = columns(50, 0)
    whole = list(Feed(ListLoader(data, 8), epoch=2))
    for done, (_, state) in enumerate(whole, 1):
        rest = Feed(ListLoader(data, 8), epoch=2, done=done, state=state)
        assert len(rest) == len(whole) - done
        for (batch, _), (expected, _) in zip(rest, whole[done:], strict=True):
            assert torch.equal(batch["x"], expected["x"])


def test_a_batch_fetched_ahead_does_not_change_the_state_of_the_one_before():
    data = columns(50, 0)
    first, _ = islice(Feed(ListLoader(data, 8), epoch=0), 2)
    _, state = first
    assert state["given"] == 8


def test_waiting_is_counted():
    class Slow(ListLoader):
        def __iter__(self):
            for batch in super().__iter__():
                torch.eye(300).matrix_power(50)
                yield batch

    feed = Feed(Slow(columns(50, 0), 8), epoch=0)
    list(feed)
    assert feed.waited > 0
