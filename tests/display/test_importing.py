"""Imports without garbage collection, which continues as it was."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from outofcore.display.console import large_imports


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    gc.unfreeze()
    gc.enable()


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_is_collected_again_afterwards_if_it_was_before(enabled: bool) -> None:
    if not enabled:
        gc.disable()
    with large_imports():
        assert not gc.isenabled()
    assert gc.isenabled() is enabled
    with pytest.raises(ImportError), large_imports():
        raise ImportError
    assert gc.isenabled() is enabled


def test_what_was_imported_is_not_searched_again() -> None:
    with large_imports():
        made: list[object] = [[]]
    assert gc.get_freeze_count() > 0
    assert not any(each is made for each in gc.get_objects())
