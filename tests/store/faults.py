"""A filesystem that refuses one step of writing below a folder, chosen from all that a run makes."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Step = tuple[str, str]
"""Name of the call, and path relative to the folder."""


class Faults:
    """Records each step, and raises ``code`` at the first that is ``refused``."""

    def __init__(self, folder: Path, refused: Step | None = None, code: int = 0) -> None:
        self.steps: dict[Step, None] = {}  # in order
        self._folder = folder.absolute()
        self._refused = refused
        self._code = code
        self._opened: dict[int, Any] = {}

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Watch this process."""
        patch.setattr(io, "open", self._watched_open(io.open))
        patch.setattr(os, "open", self._watched_descriptor(os.open))
        patch.setattr(os, "fsync", self._watched(lambda _: None, "fsync"))  # the disk itself is not asked
        for name in ("mkdir", "rename", "replace", "unlink"):
            patch.setattr(os, name, self._watched(getattr(os, name), name))

    def _step(self, call: str, path: Any) -> None:
        whole = Path(os.fsdecode(path)).absolute()
        if not whole.is_relative_to(self._folder):
            return
        step = call, re.sub(r"\.[0-9a-f]{8}(?=\.|/|$)", "", str(whole.relative_to(self._folder)))  # names by chance
        first = step not in self.steps
        self.steps[step] = None
        if first and step == self._refused:
            raise OSError(self._code, os.strerror(self._code))

    def _watched(self, call: Callable[..., Any], name: str) -> Callable[..., Any]:
        def watched(path: Any, *arguments: Any, **options: Any) -> Any:
            path_of = self._opened.get(path, "/") if isinstance(path, int) else path
            if options.get("dir_fd") is None:
                self._step(name, path_of)
            return call(path, *arguments, **options)

        return watched

    def _watched_open(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(path: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
            if set(mode) & set("wax+") and not isinstance(path, int):
                self._step("open", path)
            stream = call(path, mode, *arguments, **options)
            self._opened[stream.fileno()] = path
            return stream

        return watched

    def _watched_descriptor(self, call: Callable[..., int]) -> Callable[..., int]:
        def watched(path: Any, *arguments: Any, **options: Any) -> int:
            number = call(path, *arguments, **options)
            self._opened[number] = path if options.get("dir_fd") is None else "/"
            return number

        return watched
