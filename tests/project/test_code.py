"""The digest of the code that a domain runs: what changes it, and what does not."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from outofcore import __version__
from outofcore.domains.domain import Domain
from outofcore.domains.registry import get_domain
from outofcore.errors import ParamsError
from outofcore.params import load_params
from outofcore.project import code
from outofcore.project.code import check_version, code_of, digest_of
from tests.domains.test_registry import COMMAND, install_dna, run

ROOT = Path(__file__).parents[2]
MODULE = '''"""Docs."""

import numpy


def {name}(value):
    """Docs."""
    return value + 1
'''


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A domain in a package of its own."""
    folder = tmp_path / "own_domain"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from typing import TYPE_CHECKING\n"
        "from outofcore.domains.domain import Domain\n"
        "from . import records\n"
        "if TYPE_CHECKING:\n    from own_domain.draw import Drawing\n"
        "class Own(Domain):\n"
        "    name = 'own'\n"
        "    def converter(self, section, rate):\n        return self._make(section)\n"
        "    def _make(self, section):\n        return records.Converter(section)\n"
        "    def draw(self, rows, attributes=None):\n"
        "        from own_domain.draw import draw\n        return draw(rows)\n"
        "    def plan(self, section, outlook):\n        return self.draw(())\n"
        "DOMAIN = Own()\n"
    )
    for name in ("schema", "source", "records", "tensors", "layers", "draw", "sample"):
        (folder / f"{name}.py").write_text(MODULE.format(name=name))
    (folder / "records.py").write_text("from own_domain import params\nclass Converter:\n    pass\n")
    (folder / "model.py").write_text("from .network import network\n\n\ndef make_task():\n    return network\n")
    (folder / "network.py").write_text(f"from . import layers\n{MODULE.format(name='network')}")
    (folder / "params.py").write_text(
        "from own_domain import sample\n"
        "class Section:\n"
        "    size: int = 1\n"
        "    @property\n"
        "    def window(self):\n        return 2 * self.size\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [each for each in sys.modules if each.partition(".")[0] == "own_domain"]:
        del sys.modules[name]


def described(package: Path) -> dict[str, str]:
    del package
    for cached in (code._parsed, code._digest, code._file):
        cached.cache_clear()
    from own_domain import DOMAIN  # type: ignore[import-not-found]

    return code_of(DOMAIN, SimpleNamespace())


def modules(text: str) -> set[str]:
    return {line.split()[0] for line in text.splitlines()}


def test_each_purpose_has_its_modules(package: Path) -> None:
    found = described(package)
    own = {"own_domain", "own_domain.params"}
    assert modules(found["convert"]) == own | {f"own_domain.{name}" for name in ("schema", "source", "records")}
    trained = {name for name in modules(found["train"]) if name.startswith("own_domain")}
    assert trained == own | {f"own_domain.{name}" for name in ("tensors", "model", "network", "layers")}
    shared = {f"outofcore.domains.{name}" for name in ("reading", "streaming", "task")}
    assert {"outofcore.training.loop", "outofcore.training.optimizers", *shared} < modules(found["train"])


@pytest.mark.parametrize(
    ("file", "old", "new", "changes"),
    [
        ("source.py", "value + 1", "value + 2", {"convert"}),
        ("records.py", "pass", "x = 1", {"convert"}),
        ("network.py", "value + 1", "value - 1", {"train"}),
        ("network.py", "import numpy\n", "import numpy  # arrays\n\n# More.\n", set()),
        ("network.py", '    """Docs."""\n', '    """Other docs."""\n', set()),
        ("network.py", "    return value + 1", "    return (\n        value + 1\n    )", set()),
        ("draw.py", "value + 1", "value + 2", set()),
        ("sample.py", "value + 1", "value + 2", set()),
        ("layers.py", "value + 1", "value + 2", {"train"}),
        ("params.py", "2 * self.size", "3 * self.size", {"convert", "train"}),
        ("params.py", "size: int = 1", "size: int = 2", set()),
        ("params.py", "class Section:", "LARGEST = 9\nclass Section:", set()),
        ("__init__.py", "records.Converter(section)", "records.Converter(section, 1)", {"convert", "train"}),
        ("__init__.py", "name = 'own'", "name = 'own'\n    suffixes = ('.own',)", {"convert", "train"}),
        ("__init__.py", "return draw(rows)", "return draw(rows[:1])", set()),
        ("__init__.py", "return self.draw(())", "return None", set()),
    ],
)
def test_a_change_of_the_code_counts_where_it_is_run(
    package: Path, file: str, old: str, new: str, changes: set[str]
) -> None:
    before = described(package)
    path = package / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    after = described(package)
    assert {name for name in before if before[name] != after[name]} == changes


@pytest.mark.parametrize(
    ("source", "digest"),
    [
        ("x = f'{value:>{width}}'", "ceb6835ca8f12dd3"),  # 3.12 has an empty string after the width
        (
            "x = '\u2ffc \U0001cc00 \U0002ebf0'",
            "1b49399a1416339e",
        ),  # 3.13 prints the first and the last, 3.11 escapes them
        ("def f(a=None, *, b=''):\n    return ['', a, b]", "fffbff98127e1560"),  # functions have more fields since 3.12
    ],
)
def test_versions_of_python_give_the_same_digest(source: str, digest: str) -> None:
    assert digest_of(ast.parse(source)) == digest


def test_code_that_python_cannot_read_is_one_line(package: Path) -> None:
    (package / "network.py").write_text("def f(:\n    pass\n")
    with pytest.raises(ParamsError, match=r"network\.py, line 1: "):
        described(package)


@pytest.mark.parametrize("name", ["chess", "go", "text", "neural"])
def test_no_domain_depends_on_the_code_of_another(name: str) -> None:
    found = code_of(get_domain(name), load_params(ROOT / "params.yaml").section(name))
    for text in found.values():
        packages = {module.split(".")[2] for module in modules(text) if module.startswith("outofcore.domains.")}
        assert packages <= {name, "boards", "reading", "streaming", "task"}
        assert name in packages
    assert f"outofcore.domains.{name}.schema" in modules(found["convert"])
    assert f"outofcore.domains.{name}.model" in modules(found["train"])


def test_streamed_text_trains_with_the_code_that_reads_it() -> None:
    params = load_params(ROOT / "params.yaml").section("text")
    domain: Domain = get_domain("text")
    stored, streamed = (
        code_of(domain, params.model_copy(update={"mode": mode}))["train"] for mode in ("store", "stream")
    )
    assert "outofcore.domains.text.stream" not in modules(stored)
    assert {"outofcore.domains.text.stream", "outofcore.domains.text.documents.reading"} <= modules(streamed)


def test_another_version_than_the_project_states_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    check_version(file)
    file.write_text("numpy==1\noutofcore-extras==3\n")
    check_version(file)
    file.write_text(f"outofcore=={__version__}  # pinned\n")
    check_version(file)
    file.write_text(f"outofcore[chess,go] == {__version__}\n")
    check_version(file)
    for line in ("outofcore==0.0.1", "outofcore[text]==0.0.1"):
        file.write_text(f"numpy==1\n{line}\n")
        with pytest.raises(
            ParamsError, match=r"expected outofcore .*, the installed version, got 0\.0\.1; install that"
        ):
            check_version(file)


def test_a_package_that_provides_a_domain_counts_too(tmp_path: Path) -> None:
    """Its new version is noticed, named, and taken over, so that what it changed runs again."""
    install_dna(tmp_path / "site")
    made = run(tmp_path, "-c", COMMAND, "init", "p", "--domains", "dna")
    assert made.returncode == 0, made.stderr
    file = tmp_path / "p/requirements.txt"
    assert file.read_text() == f"outofcore=={__version__}\ndna-for-training==1.2\n"
    file.write_text(file.read_text().replace("dna-for-training==1.2", "DNA_for.training == 1.1"))
    check = (
        "import pathlib; from outofcore.project.code import check_version as c; c(pathlib.Path('p/requirements.txt'))"
    )
    assert "expected dna-for-training 1.2, the installed version, got 1.1; install" in run(tmp_path, "-c", check).stderr
    file.write_text(f"outofcore=={__version__}\ndna-for-training==1.1\n")
    assert "changed  requirements.txt" in run(tmp_path, "-c", COMMAND, "init", "p").stdout
    assert run(tmp_path, "-c", check).returncode == 0
