"""A store on its way into an object storage: shards go as they become whole, the seal goes last.

The store does not exist until its seal is there, and an earlier one at the same address ceases to exist before its
first object is replaced. Large files go in parts, each repeated by itself when a request fails. Who the writer is, and
where the storage is, comes from the environment, as for reading (:mod:`outofcore.store.remote`).
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

# Files side by side, and parts of each: what they hold in memory is these times PART_BYTES.
FILES = 4
PARTS = 4
PART_BYTES = 8 << 20
# Stands beside the shards while there is no seal.
UNFINISHED = "unfinished"


class Upload:
    """Puts a store at an address; a copy in another process makes its own connections.

    Parameters
    ----------
    root
        ``s3://bucket/folder``.
    """

    def __init__(self, root: str) -> None:
        self.root = root

    def __getstate__(self) -> dict[str, str]:
        return {"root": self.root}

    def begin(self) -> None:
        """Make sure that this address can be written to.

        Raises
        ------
        StoreError
            If it cannot: no credentials, no access, no bucket, no answer.
        """
        self.put(UNFINISHED, b"a conversion to this address has not ended\n")

    def unseal(self) -> None:
        """What stood at the address is no store from now on."""
        self._delete([SEAL])

    def take(self, folder: Path, names: Iterable[str], into: str = "") -> None:
        """Put files; they stay where they are, too.

        Parameters
        ----------
        folder, names
            The files.
        into
            Folder of the store in which they stand.
        """
        with ThreadPoolExecutor(FILES, thread_name_prefix="upload") as pool:
            for _ in pool.map(lambda name: self.put(f"{into}/{name}" if into else name, folder / name), names):
                pass

    def finish(self, seal: Seal) -> None:
        """Seal what was put, and remove whatever else lies at the address.

        Raises
        ------
        DamagedStore
            If something that the seal lists is not there.
        """
        RemoteFiles(self.root).compare(seal.files)
        with self._told("what an earlier store has left"):
            found = listed(self._obstore, self._store)
        self._delete([name for name in found if name not in seal.files])
        self.put(SEAL, seal.text().encode())

    def put(self, name: str, content: Path | bytes) -> None:
        """Put one object, from a file or as it is."""
        with self._told(name):
            self._obstore.put(self._store, name, content, chunk_size=PART_BYTES, max_concurrency=PARTS)

    def _delete(self, names: list[str]) -> None:
        if names:
            with self._told(names[0]):
                repeated(self._obstore, lambda: self._obstore.delete(self._store, names))

    @cached_property
    def _obstore(self) -> Any:
        return imported(self.root)

    @cached_property
    def _store(self) -> Any:
        return connect(self.root)

    @contextmanager
    def _told(self, name: str) -> Iterator[None]:
        try:
            yield
        except (self._obstore.exceptions.BaseError, FileNotFoundError) as error:
            raise StoreError(what_failed(self.root, name, error, "written")) from error
