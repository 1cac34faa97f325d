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
    monkeypatch.setattr(compilation, "CONSTANTS", ("fact*.py",))
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    forget()


def forget() -> None:
    """As in a new process, after the end of this one."""
    for name in [name for name in sys.modules if name.split(".")[0] == "kernels"]:
        del sys.modules[name]
    compilation._folder.cache_clear()
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
    assert len(list((package / "__pycache__").glob("machine-code.*"))) == compilation.KEPT


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
    assert "no place for machine code has 64 MiB that can be written, so it is compiled at each" in record.getMessage()


def test_a_full_disk(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    assert load()(1) == 2
    assert not list(package.rglob("*.nb[ic]"))


def trees() -> dict[Path, ast.Module]:
    return {file: ast.parse(file.read_text("utf-8")) for file in compilation.PACKAGE.rglob("*.py")}


def imports(tree: ast.Module) -> dict[str, tuple[str, str]]:
    """Module and name of what a file imports, by its name there."""
    return {
        alias.asname or alias.name: (str(node.module), alias.name)
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def decorators(node: ast.AST) -> list[str]:
    return [ast.unparse(each) for each in node.decorator_list] if isinstance(node, ast.FunctionDef) else []


def names(*nodes: ast.AST) -> set[str]:
    return {each.id for node in nodes for each in ast.walk(node) if isinstance(each, ast.Name)}


def test_what_compiled_functions_read_is_in_files_that_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A constant in another file could be edited, and the machine code with the old one would stay in use."""
    digest = compilation._digest()
    read = set()
    for tree in trees().values():
        compiled = [node for node in tree.body if any("kernel" in each or "njit" in each for each in decorators(node))]
        used = {name for node in compiled for name in names(*node.body)}  # type: ignore[attr-defined]
        for node in tree.body:  # constants of the file, made of others
            if isinstance(node, ast.Assign) and names(*node.targets) & used:
                used |= names(node.value)
        read |= {module for name, (module, _) in imports(tree).items() if name in used}
    files = [compilation.PACKAGE.parent.joinpath(*each.split(".")).with_suffix(".py") for each in sorted(read)]
    files = [file for file in files if file.is_file() and file.name != "compilation.py"]
    assert len(files) > 10
    read_bytes = Path.read_bytes
    for file in files:
        monkeypatch.setattr(Path, "read_bytes", lambda path, f=file: read_bytes(path) + b"#" * (path == f))
        assert compilation._digest() != digest, file


def test_every_compiled_function_of_the_package_is_cached_by_the_digest() -> None:
    for module in (legal, gather):
        found = [value for value in vars(module).values() if hasattr(value, "stats")]
        assert found
        for function in found:
            assert f"/machine-code.{compilation._digest()}/" in function.stats.cache_path


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
    inner, called = set(), set()
    for file, tree in trees().items():
        module = ".".join(file.relative_to(compilation.PACKAGE.parent).with_suffix("").parts)
        imported = imports(tree)
        for node in tree.body:
            if {"inner_kernel", "inlined_kernel"} & set(decorators(node)):
                inner.add((module, node.name))  # type: ignore[attr-defined]
            if not any("kernel" in each or "njit" in each for each in decorators(node)):
                called |= {imported.get(name, (module, name)) for name in names(node)}
    assert len(inner) > 40
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
    ended = subprocess.run([sys.executable, "-c", STOPPED], capture_output=True, text=True, check=False)
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


TWO_COMPILED = """
from outofcore.system.compilation import njit
@njit(cache=True)
def more(x):
    return x + 1
more(1), more(1.5)
"""


def test_a_terminal_is_told_why_it_waits(tmp_path: Path) -> None:
    """Once, and not where the machine code is kept from an earlier run."""
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    (tmp_path / "two.py").write_text(TWO_COMPILED)
    for lines in (1, 0):
        controller, terminal = os.openpty()
        subprocess.run([sys.executable, tmp_path / "two.py"], env={**os.environ, **cache}, stderr=terminal, check=True)
        os.write(terminal, b".")
        assert os.read(controller, 4096).count(b"compiling machine code") == lines
        os.close(terminal)
        os.close(controller)
