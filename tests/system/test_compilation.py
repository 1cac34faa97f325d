"""Machine code is used again for the sources that it was made of, and for no others."""

from __future__ import annotations

import ast
import gc
import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
import pytest

from outofcore.domains.chess import legal
from outofcore.loading import gather
from outofcore.system import compilation

KERNEL = """
from outofcore.system.compilation import njit
from kernels.callee import add
@njit(cache=True)
def run(x):
    return add(x)
"""
CALLEE = """
from outofcore.system.compilation import njit
from kernels.facts import N
@njit(cache=True)
def add(x):
    return x + N
"""


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
    """As in a new process, after the end of this one."""
    for name in [name for name in sys.modules if name.split(".")[0] == "kernels"]:
        del sys.modules[name]
    for cached in (compilation._folder, compilation._warn):
        cached.cache_clear()
    for cached in (compilation.source_digest, compilation._imported):
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
    end_process(package)
    (package / "other.py").write_text("# edited\n")
    run = load()
    assert run(1) == 2
    assert hits(run) == 1


def test_earlier_machine_code_is_removed(package: Path) -> None:
    for number in range(compilation.KEPT + 3):
        (package / "facts.py").write_text(f"N = {number}\n")
        assert load()(1) == 1 + number
    assert len(list((package / "__pycache__").glob("kernel.*"))) == compilation.KEPT


def cached_files(package: Path) -> list[Path]:
    return sorted((package / "__pycache__").rglob("*.nb[ic]"))


def end_process(package: Path) -> None:
    for folder in {file.parent.parent for file in cached_files(package)}:
        compilation._list(folder)


def test_no_place_that_can_be_written(
    package: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (package / "__pycache__").write_text("a file: no folder can be made here, not even by root\n")
    monkeypatch.setenv("HOME", "/dev/null")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    run = load()
    assert run(1) == 2
    assert not run.stats.cache_path
    [record] = caplog.records
    assert "no place for machine code has 8 MiB that can be written, so it is compiled at each" in record.getMessage()


def test_a_full_disk(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    assert load()(1) == 2
    assert cached_files(package) == []


def damage_of_each_kind(content: bytes) -> list[bytes]:
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 4
    return [b"", content[: len(content) // 2], bytes(len(content)), bytes(flipped)]


@pytest.mark.parametrize("kind", range(4), ids=["empty", "cut", "zeroed", "one bit"])
def test_damaged_machine_code_is_compiled_again(package: Path, kind: int) -> None:
    assert load()(1) == 2
    end_process(package)
    for file in cached_files(package):
        if kind < 3 or file.suffix == ".nbc":
            file.write_bytes(damage_of_each_kind(file.read_bytes())[kind])
    run = load()
    assert run(1) == 2
    assert hits(run) == 0
    end_process(package)
    run = load()
    assert run(1) == 2
    assert hits(run) == 1


def test_what_another_process_is_compiling_now(package: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It adds to an index of machine code that was listed, and has not listed it again: nothing is said of that."""
    assert load()(1) == 2
    end_process(package)
    listings = {file: file.read_bytes() for file in (package / "__pycache__").rglob("sums.json")}
    assert load()(1.5) == 2.5
    end_process(package)
    for file, listing in listings.items():
        assert file.read_bytes() != listing
        file.write_bytes(listing)
    assert load()(1) == 2
    assert not caplog.records


def test_what_a_killed_process_compiled_last_is_compiled_again(package: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It may be cut, zeroed or flipped anywhere after a power loss; what was compiled before is listed."""
    command = "from kernels.kernel import run; run(1); import os; os._exit(9)"
    environment = os.environ | {"PYTHONPATH": str(package.parent), "NUMBA_CACHE_DIR": ""}
    assert subprocess.run([sys.executable, "-c", command], env=environment).returncode == 9
    callee, last = ([file for file in cached_files(package) if name in file.name] for name in ("callee", "kernel"))
    assert [len(callee), len(last)] == [2, 2]
    before = [file.read_bytes() for file in callee]
    for file in last:
        file.write_bytes(damage_of_each_kind(file.read_bytes())[3])
    run = load()
    assert run(1) == 2
    assert hits(run) == 0
    assert not caplog.records
    assert [file.read_bytes() for file in callee] == before
    end_process(package)
    run = load()
    assert run(1) == 2
    assert hits(run) == 1


def test_the_sums_are_listed_when_a_process_ends(package: Path) -> None:
    command = "from kernels.kernel import run; print(run(1), sum(run.stats.cache_hits.values()))"
    environment = os.environ | {"PYTHONPATH": str(package.parent), "NUMBA_CACHE_DIR": str(package / "machine")}
    for hit in (0, 1):
        ended = subprocess.run([sys.executable, "-c", command], env=environment, capture_output=True, text=True)
        assert (ended.stdout, ended.stderr) == (f"2 {hit}\n", "")
    assert len(list((package / "machine").rglob("sums.json"))) == 2


def test_every_compiled_function_of_the_package_is_cached_by_its_sources() -> None:
    for module in (legal, gather):
        found = [value for value in vars(module).values() if hasattr(value, "stats")]
        assert found
        for function in found:
            file = Path(function.py_func.__code__.co_filename)
            assert f"/{file.stem}.{compilation.source_digest(file)[:16]}/" in function.stats.cache_path


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


def test_no_inner_kernel_is_called_by_python() -> None:
    """It has no code for that: the process would end."""
    trees = {file: ast.parse(file.read_text("utf-8")) for file in compilation.PACKAGE.rglob("*.py")}
    inner, called = set(), set()
    for file, tree in trees.items():
        module = ".".join(file.relative_to(compilation.PACKAGE.parent).with_suffix("").parts)
        names = {
            alias.asname or alias.name: (node.module, alias.name)
            for node in tree.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for node in tree.body:
            decorators = (
                [ast.unparse(each) for each in node.decorator_list] if isinstance(node, ast.FunctionDef) else []
            )
            if {"inner_kernel", "inlined_kernel"} & set(decorators):
                inner.add((module, node.name))
            if not any("kernel" in each or "njit" in each for each in decorators):
                called |= {
                    names.get(each.id, (module, each.id)) for each in ast.walk(node) if isinstance(each, ast.Name)
                }
    assert len(inner) > 80
    assert not inner & called


STOPPED = """
from outofcore.display.console import one_line_errors
with one_line_errors():
    import os, signal, threading
    from concurrent.futures import ThreadPoolExecutor
    from outofcore.system.compilation import njit
    begun = threading.Event()
    def compile_forever():
        while True:
            njit()(lambda x: x + 1)(1)
            begun.set()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(compile_forever)
        begun.wait()
        os.kill(os.getpid(), signal.SIGINT)
"""


def test_ctrl_c_ends_a_compilation_in_another_thread() -> None:
    ended = subprocess.run([sys.executable, "-c", STOPPED], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 130
    assert ended.stderr == "stopped; finished work is kept, run the same command to resume\n"


def test_garbage_is_collected_again_after_a_compilation() -> None:
    assert gc.isenabled()
    with pytest.raises(numba.core.errors.NumbaError):
        numba.njit(lambda: undefined)()  # type: ignore[name-defined] # noqa: F821
    assert gc.isenabled()


def test_a_kernel_counts_no_references() -> None:
    assert _sum(np.arange(5)) == 10
    _sum.recompile()  # machine code from the cache of an earlier run cannot be looked into
    (code,) = _sum.inspect_llvm().values()
    assert "NRT_incref" not in code


def test_a_kernel_allocates_nothing() -> None:
    with pytest.raises(numba.core.errors.NumbaError, match="NRT required"):
        compilation.kernel(lambda: np.zeros(3))()


def test_a_variable_is_no_constant_for_what_is_called_with_it() -> None:
    """Neither is cached, so that all is compiled here."""
    number = compilation.variable
    rest, rest_of_constant = (numba.njit(lambda first, last: last - first) for _ in range(2))

    @numba.njit
    def longest(ends: Any) -> Any:
        first, most = number(0), 0
        for end in ends:
            most = max(most, rest(first, end))
            first = end
        return most

    @numba.njit
    def longest_from_constant(ends: Any) -> Any:
        first, most = 0, 0
        for end in ends:
            most = max(most, rest_of_constant(first, end))
            first = end
        return most

    ends = np.array([3, 9, 11])
    assert longest(ends) == longest_from_constant(ends) == 6
    assert (len(rest.signatures), len(rest_of_constant.signatures)) == (1, 2)


@pytest.mark.usefixtures("package")
def test_a_terminal_is_told_why_it_waits(tmp_path: Path) -> None:
    """Once, and not where the machine code is kept from an earlier run."""
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path)}
    for lines in (1, 0):
        controller, terminal = os.openpty()
        command = [sys.executable, "-c", "from kernels.kernel import run; run(1); run(1.5)"]
        subprocess.run(command, env={**os.environ, **cache}, stderr=terminal, check=True)
        os.write(terminal, b".")
        assert os.read(controller, 4096).count(b"compiling machine code") == lines
        os.close(terminal)
        os.close(controller)
