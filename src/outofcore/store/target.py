"""The final place of a store: one process at a time writes it, and only a store of ours is ever replaced."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from outofcore.errors import ParamsError, StoreError
from outofcore.store.reader import open_store
from outofcore.store.schema import Field
from outofcore.store.seal import SEAL, names_of
from outofcore.system.durable import WorkFolder, remove, sync_folder, writing


class Target(WorkFolder):
    """The place of a store, with the work folder next to it, which is its lock as well."""

    def __init__(self, final: Path) -> None:
        super().__init__(
            final.with_name(f"{final.name}.work"),
            f"{final}: another process writes this store (it works in {final.name}.work); wait until it has ended",
        )
        self.final = final
        self._arriving, self._replaced = self.path / "arriving", self.path / "replaced"

    def __enter__(self) -> Self:
        self._refuse_foreign()
        return super().__enter__()

    def place(self, sealed: Path) -> None:
        """Move a sealed folder, whose files are on the disk, to the place, even from another filesystem.

        No partial store is ever visible; after an error the store before it and the sealed folder are in their places.
        """
        self._refuse_foreign()
        with writing(self.final):
            try:
                _sync_folders(sealed)  # now: between the renames it would take time
                try:
                    sealed.rename(self._arriving)
                except OSError as error:
                    if error.errno != errno.EXDEV:
                        raise
                    _copy(sealed, self._arriving)
                    _sync_folders(self._arriving)
                if self.final.exists():
                    shutil.move(self.final, self._replaced)  # an overlay does not rename a folder of its lower layers
                self._arriving.rename(self.final)
            except BaseException:
                self.put_back(sealed)
                raise
            sync_folder(self.final.parent)
        for old in (self._replaced, sealed):
            shutil.rmtree(old, ignore_errors=True)

    def put_back(self, sealed: Path) -> None:
        """Undo a move that was stopped, so that no copy of a store takes room for ever."""
        with writing(self.final):
            for moved in (self._arriving, self._replaced):
                if moved.is_symlink():
                    moved.unlink()
            if self._replaced.is_dir() and not self.final.exists():
                shutil.move(self._replaced, self.final)
            if self._arriving.is_dir() and not sealed.exists():
                try:
                    self._arriving.rename(sealed)
                except OSError as error:
                    if error.errno != errno.EXDEV:  # then a copy, for another work folder
                        raise
            for old in (self._arriving, self._replaced):
                with suppress(OSError):
                    remove(old)

    def _refuse_foreign(self) -> None:
        if why := foreign(self.final):
            message = f"{self.final}: {why}"
            raise StoreError(message)


def foreign(final: Path) -> str:
    """Why a path must not be replaced by a store: what is there is not ours, or not ours alone; "" if it may be."""
    if not os.path.lexists(final):
        return ""
    own = None
    with suppress(OSError):
        if (final / SEAL).is_file():
            own = names_of((final / SEAL).read_bytes())
    if own is None:
        return "expected a new folder, or a sealed store to replace, got something else; nothing was touched"
    for path in final.rglob("*"):
        name = path.relative_to(final).as_posix()
        if name not in own and (path.is_symlink() or not path.is_dir()):
            return f"expected nothing but a sealed store to replace, got {name} in it as well; move it elsewhere"
    return ""


def refuse_replacing(path: str | Path, domain: str, params: Mapping[str, Any], fields: Sequence[Field] = ()) -> None:
    """Raise ParamsError if a store is there that was made otherwise: of another domain, or with other settings.

    One that is damaged may be replaced. ``fields`` are those that rows will have, where the settings do not say.
    """
    try:
        there = open_store(path)
        rows = there.rows(there.splits[0], there.parts[0]).fields if fields else {}
    except StoreError:
        return
    made = there.attributes.get("params")
    known = made if isinstance(made, dict) else {}
    stored = {name: (str(each.dtype), each.shape[1:]) for name, each in rows.items()}
    if there.domain != domain:
        what = f"is one of {there.domain}"
    elif stored != {each.name: (each.dtype, tuple(each.shape)) for each in fields}:
        what = f"has other fields: {', '.join(rows)}"
    elif made != params:
        changed = [name for name in {**params, **known} if known.get(name) != params.get(name)]
        what = f"was made with other settings: {', '.join(changed)}"
    else:
        return
    message = f"{path}: the store that is there {what}; name another path, or replace it: replace=True (--replace)"
    raise ParamsError(message)


def _sync_folders(root: Path) -> None:
    for folder in (root, *filter(Path.is_dir, root.rglob("*"))):
        sync_folder(folder)


def _copy(source: Path, target: Path) -> None:
    """Copy a folder to the disk."""
    for path in filter(Path.is_file, source.rglob("*")):
        copied = target / path.relative_to(source)
        with writing(copied):
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copied)
            with copied.open("r+b") as stream:
                os.fsync(stream.fileno())
