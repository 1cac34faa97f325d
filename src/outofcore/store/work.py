"""The folder in which a store grows, for writers that keep nothing of a stopped run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from outofcore.errors import StoreError
from outofcore.locks import take
from outofcore.store.durable import writing


@contextmanager
def work_folder(final: Path) -> Iterator[Path]:
    """A folder next to the store, which one process uses at a time, and of which nothing is left after an error."""
    work = final.with_name(f"{final.name}.work.arrays")
    with writing(final):
        lock = _locked(work, final)
    try:
        with writing(final):
            for stale in work.iterdir():  # of a process that was killed
                shutil.rmtree(stale) if stale.is_dir() else stale.unlink()
        yield work
    except BaseException:
        arriving, replaced = (final.with_name(f"{final.name}.work.{name}") for name in ("arriving", "replaced"))
        if replaced.exists() and not final.exists():
            replaced.rename(final)
        for left in (work, arriving, replaced):
            shutil.rmtree(left, ignore_errors=True)
        raise
    finally:
        os.close(lock)


def _locked(work: Path, final: Path) -> int:
    while True:
        work.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            lock = os.open(work, os.O_RDONLY)
            if not take(lock):
                os.close(lock)
                message = f"{final}: another process writes this store"
                raise StoreError(message)
            if work.exists() and os.path.samestat(work.stat(), os.fstat(lock)):
                return lock
            os.close(lock)
