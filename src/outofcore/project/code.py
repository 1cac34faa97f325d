"""Digests of the code that converts and trains a domain, which comments and docstrings do not change.

They cover the domain's own package, packages that domains share and the training loop. What stores and loaders promise
to keep (bytes, the order of samples) is not part of them.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from outofcore import __version__
from outofcore.domains.domain import Domain
from outofcore.errors import ParamsError

PACKAGE = Path(__file__).resolve().parents[1]
LOOP = ("outofcore.training.loaders", "outofcore.training.loop")
# Their values are in params.yaml; the types and defaults of others change nothing.
SETTINGS = "params"


# Where the code begins: modules of a domain by convention, and methods that override them.
CONVERT = (("schema", "source", "convert"), ("schemas", "units", "converter", "raw_files", "prepared"))
TRAIN = (("tensors", "model"), ("reading", "task"))
STREAM = ((), ("stream",))


def code_of(domain: Domain, section: Any) -> dict[str, str]:
    """What ``convert`` and ``train`` run: a line for each module with its digest."""
    package = type(domain).__module__
    trains = (TRAIN, STREAM) if domain.streamed(section) else (TRAIN,)
    return {
        "convert": _described(package, _begin(package, CONVERT)),
        "train": _described(package, {*LOOP}.union(*(_begin(package, each) for each in trains))),
    }


def check_version(requirements: Path) -> None:
    """Raise ParamsError if a project's requirements state another version of outofcore than the one that runs."""
    text = requirements.read_text("utf-8") if requirements.is_file() else ""
    stated = re.search(r"^outofcore\s*==\s*([^\s;#]+)", text, re.MULTILINE)
    if stated and stated[1] != __version__:
        message = (
            f"{requirements}: expected outofcore {__version__}, the installed version, got {stated[1]}; install that "
            "one or change the line"
        )
        raise ParamsError(message)


def _begin(package: str, part: tuple[tuple[str, ...], tuple[str, ...]]) -> set[str]:
    modules, methods = part
    used = _method_imports(package)
    return {f"{package}.{name}" for name in modules}.union(*(used.get(name, ()) for name in methods))


def _described(package: str, begin: Iterable[str]) -> str:
    return "".join(f"{module} {_digest(module)}\n" for module in sorted(_closure(package, begin)))


def _closure(package: str, begin: Iterable[str]) -> set[str]:
    found: set[str] = set()
    waiting = list(begin)
    while waiting:
        module = waiting.pop()
        if module in found or not _counts(module, package):
            continue
        found.add(module)
        waiting += _imports(_parsed(module))
    return found


def _counts(module: str, package: str) -> bool:
    """Whether a module's code decides what a domain stores or learns."""
    shared = module.startswith("outofcore.domains.") and module.count(".") > 2
    within = module.startswith((f"{package}.", "outofcore.training.")) or shared
    return within and not module.endswith(f".{SETTINGS}") and _file(module) is not None


def _method_imports(package: str) -> dict[str, set[str]]:
    """Modules whose names the methods of a domain use, by method."""
    tree = _parsed(package)
    known = dict(_names(tree))
    found = {}
    for each in ast.walk(tree):
        if isinstance(each, ast.FunctionDef):
            used = {node.id for part in each.body for node in ast.walk(part) if isinstance(node, ast.Name)}
            found[each.name] = {known[name] for name in used if name in known}
    return found


def _names(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Names that import statements bind, with their modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for name in node.names:
                inner = f"{node.module}.{name.name}"
                yield name.asname or name.name, inner if _file(inner) else node.module
        elif isinstance(node, ast.Import):
            for name in node.names:
                yield name.asname or name.name, name.name


def _imports(tree: ast.AST) -> list[str]:
    return [module for _, module in _names(tree)]


@cache
def _parsed(module: str) -> ast.Module:
    """The code of a module, without what is only imported for types, bare strings among them docstrings."""
    file = _file(module)
    try:
        tree = ast.parse(file.read_bytes() if file else b"")
    except SyntaxError as error:
        message = f"{file}, line {error.lineno}: {error.msg}"
        raise ParamsError(message) from error
    bare: ast.Module = _Bare().visit(tree)
    return bare


class _Bare(ast.NodeTransformer):
    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        """Leave out a string that nothing uses."""
        return None if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str) else node

    def visit_If(self, node: ast.If) -> ast.AST | None:
        """Leave out what only type checkers read."""
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return None
        return self.generic_visit(node)


@cache
def _digest(module: str) -> str:
    return hashlib.sha256(repr(_plain(_parsed(module))).encode()).hexdigest()[:16]


def _plain(node: Any) -> Any:
    """A syntax tree as tuples, without places, and without what is empty: versions of Python differ in such fields."""
    if isinstance(node, ast.AST):
        fields = ((name, _plain(value)) for name, value in ast.iter_fields(node))
        return type(node).__name__, *sorted((name, value) for name, value in fields if value not in (None, ()))
    return tuple(map(_plain, node)) if isinstance(node, list) else repr(node) if node is not None else None


@cache
def _file(module: str) -> Path | None:
    """The file of a module that no import is needed to find: of this package, or of one that is loaded."""
    first, *rest = module.split(".")
    if first == PACKAGE.name:
        place = PACKAGE.joinpath(*rest)
    elif first in sys.modules and (spec := find_spec(first)) and spec.submodule_search_locations:
        place = Path(next(iter(spec.submodule_search_locations))).joinpath(*rest)
    else:
        return None
    options = (place.with_suffix(".py"), place / "__init__.py")
    return next((each for each in options if each.is_file()), None)
