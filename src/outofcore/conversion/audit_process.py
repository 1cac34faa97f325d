"""The process that makes oracle comparisons; it imports little, as its start competes with the conversion for cores."""

from __future__ import annotations

from contextlib import suppress
from multiprocessing.connection import Connection

from outofcore.raw.unit import difference


def serve(connection: Connection) -> None:
    """Make the comparisons that arrive, up to the first difference, until the other side is gone."""
    found: str | None = None
    with suppress(EOFError, OSError):
        while not found:
            found = difference(connection.recv())
            connection.send(found)
