"""Machine code is used again for the sources that it was made of, and for no others."""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from outofcore import compilation
from outofcore.domains.chess import legal
from outofcore.loading import gather

KERNEL = "from numba import njit\nfrom kernels.callee import add\n@njit(cache=True)\ndef run(x):\n    return add(x)\n"
CALLEE = "from numba import njit\nfrom kernels.facts import N\n@njit(cache=True)\ndef add(x):\n    return x + N\n"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package of three files: a compiled function, one that it calls, and a constant of that."""
    folder = tmp_path / "kernels"
    folder.mkdir()
    for name, content in {"__init__": "", "kernel": KERNEL, "callee": CALLEE, "facts": "N = 1\n", "other": ""}.items():
        (folder / f"{name}.py").write_text(content)
    monkeypatch.setattr(compilation, "PACKAGE", folder)
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    forget()


def forget() -> None:
    """As in a new process."""
    for name in [name for name in sys.modules if name.split(".")[0] == "kernels"]:
        del sys.modules[name]
    for cached in (compilation.source_digest, compilation._imported, compilation._temporary):
        cached.cache_clear()
    importlib.invalidate_caches()


def load() -> Any:
    forget()
    return importlib.import_module("kernels.kernel").run


def hits(function: Any) -> int:
    return sum(function.stats.cache_hits.values())


def test_an_edited_callee_or_constant_in_another_file_is_compiled_again(package: Path) -> None:
    assert load()(1) == 2
    (package / "facts.py").write_text("N = 10\n")
    assert load()(1) == 11
    (package / "callee.py").write_text(CALLEE.replace("x + N", "x - N"))
    assert load()(1) == -9


def test_what_no_source_of_it_has_changed_is_used_again(package: Path) -> None:
    assert load()(1) == 2
    (package / "other.py").write_text("# edited\n")
    run = load()
    assert run(1) == 2
    assert hits(run) == 1


def test_earlier_machine_code_is_removed(package: Path) -> None:
    for number in range(compilation.KEPT + 3):
        (package / "facts.py").write_text(f"N = {number}\n")
        assert load()(1) == 1 + number
    assert len(list((package / "__pycache__").glob("kernel.*"))) == compilation.KEPT


def test_an_install_and_a_home_that_cannot_be_written(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (package / "__pycache__").write_text("a file: no folder can be made here, not even by root\n")
    monkeypatch.setenv("HOME", "/dev/null")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    assert load()(1) == 2
    run = load()
    assert run(1) == 2
    assert hits(run) == 1
    [own] = (tmp_path / "temporary").iterdir()
    assert own.stat().st_mode & 0o077 == 0


def test_machine_code_is_never_taken_from_a_folder_that_others_can_write_to(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (package / "__pycache__").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/nowhere")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    shared = tmp_path / f"outofcore-{os.getuid()}"
    shared.mkdir()
    shared.chmod(0o777)
    assert load()(1) == 2
    assert list(shared.iterdir()) == []


def test_every_compiled_function_of_the_package_is_cached_by_its_sources() -> None:
    found = [value for module in (legal, gather) for value in vars(module).values() if hasattr(value, "_cache")]
    assert found
    for function in found:
        assert isinstance(function._cache._impl.locator, compilation.PackageCacheLocator)


@compilation.kernel
def _total(values: Any, place: int) -> Any:
    return values[place]


@compilation.kernel
def _sum(values: Any) -> Any:
    total = 0
    for place in range(len(values)):
        if values[place] > 0:
            total += _total(values, place)
    return total


def test_a_kernel_counts_no_references() -> None:
    assert _sum(np.arange(5)) == 10
    _sum.recompile()  # machine code from the cache of an earlier run cannot be looked into
    (code,) = _sum.inspect_llvm().values()
    assert "NRT_incref" not in code


def test_a_kernel_allocates_nothing() -> None:
    with pytest.raises(numba.core.errors.NumbaError, match="NRT required"):
        compilation.kernel(lambda: np.zeros(3))()
