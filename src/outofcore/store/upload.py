"""Upload a store to object storage: shards as they become complete, the seal last.

The store does not exist until its seal is there, and an earlier one at the same address ceases to exist before its
first object is replaced. Large files are uploaded in parts, each retried separately. Credentials and endpoint come from
the environment, as for reading (:mod:`outofcore.store.remote`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from outofcore.errors import StoreError
from outofcore.store.remote import RemoteFiles, connect, imported, listed, repeated, what_failed
from outofcore.store.seal import SEAL, Seal

# Concurrent files, and parts of each; memory is their product times PART_BYTES.
FILES = 4
PARTS = 4
PART_BYTES = 8 << 20
# Stored with the shards while there is no seal.
UNFINISHED = "unfinished"


class Upload:
    """Uploads a store; a copy in another process makes its own connections."""

    def __init__(self, root: str) -> None:
        self.root = root

    def __getstate__(self) -> dict[str, str]:
        return {"root": self.root}

    def begin(self) -> None:
        """Check that the address is writable; raises StoreError without credentials, access, bucket or answer."""
        self.put(UNFINISHED, b"a conversion to this address has not ended\n")

    def unseal(self) -> None:
        """Remove the seal of an earlier store at the address."""
        self._delete([SEAL])

    def take(self, folder: Path, names: Iterable[str], into: str = "") -> None:
        """Upload files ``names`` of ``folder`` to the store's folder ``into``; local files remain."""
        with ThreadPoolExecutor(FILES, thread_name_prefix="upload") as pool:
            for _ in pool.map(lambda name: self.put(f"{into}/{name}" if into else name, folder / name), names):
                pass

    def finish(self, seal: Seal) -> None:
        """Seal the upload and remove all other objects at the address; raises DamagedStore if one is missing."""
        RemoteFiles(self.root).compare(seal.files)
        with self._one_line("what an earlier store has left"):
            found = listed(self._obstore, self._store)
        self._delete([name for name in found if name not in seal.files])
        self.put(SEAL, seal.text().encode())

    def put(self, name: str, content: Path | bytes) -> None:
        """Put one object, from a file or as it is."""
        with self._one_line(name):
            self._obstore.put(self._store, name, content, chunk_size=PART_BYTES, max_concurrency=PARTS)

    def _delete(self, names: list[str]) -> None:
        if names:
            with self._one_line(names[0]):
                repeated(self._obstore, lambda: self._obstore.delete(self._store, names))

    @cached_property
    def _obstore(self) -> Any:
        return imported(self.root)

    @cached_property
    def _store(self) -> Any:
        return connect(self.root)

    @contextmanager
    def _one_line(self, name: str) -> Iterator[None]:
        try:
            yield
        except (self._obstore.exceptions.BaseError, FileNotFoundError) as error:
            raise StoreError(what_failed(self.root, name, error, "written")) from error
