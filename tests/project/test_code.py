"""What the stage ``check`` records: what makes a conversion or a training run again, and what does not."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from outofcore import __version__
from outofcore.domains.domain import Domain
from outofcore.domains.registry import get_domain
from outofcore.errors import ParamsError
from outofcore.project import code
from outofcore.project.code import check_version, code_of, training_code
from outofcore.project.written import is_requirements, requirements
from tests.domains.test_registry import COMMANDS, install_dna, run

DOMAINS = ("chess", "go", "text", "neural")


def changed(before: dict[str, str], domain: Domain) -> set[str]:
    after = code_of(domain)
    return {name for name in before if before[name] != after[name]}


@pytest.mark.parametrize("name", DOMAINS)
def test_a_conversion_runs_again_for_other_bytes_and_other_versions(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    domain = get_domain(name)
    before = code_of(domain)
    for package in ("numcodecs", "zarr", "zstandard", *domain.packages):
        with monkeypatch.context() as patched:
            real = code.engines(name)
            patched.setattr(code, "engines", lambda _, real=real, package=package: {**real, package: "99"})
            assert changed(before, domain) == {"convert"}, package
    with monkeypatch.context() as patched:
        patched.setattr(code, "version", lambda _: "99")
        assert changed(before, domain) == {"convert", "train"}
    for field, stage in (("bytes", "convert"), ("training", "train")):
        with monkeypatch.context() as patched:
            newer = domain.versions._replace(**{field: getattr(domain.versions, field) + 1})
            patched.setattr(domain, "versions", newer)
            assert changed(before, domain) == {stage}


def test_a_model_tells_the_files_that_trained_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("training", "loading", "order", "domains"):
        shutil.copytree(code.PACKAGE / folder, tmp_path / folder)
    monkeypatch.setattr(code, "PACKAGE", tmp_path)
    chess = get_domain("chess")
    monkeypatch.setattr(sys.modules[type(chess).__module__], "__file__", str(tmp_path / "domains/chess/__init__.py"))
    recorded = code_of(chess)
    trains = ("training/loop.py", "order/plain.py", "domains/task.py", "domains/boards/policy.py")
    for file in (*trains, "domains/go/model.py"):
        before = training_code(chess, chess.section(raw="-"))
        (tmp_path / file).write_text((tmp_path / file).read_text() + "\n")
        assert (training_code(chess, chess.section(raw="-")) == before) == (file == "domains/go/model.py"), file
    assert code_of(chess) == recorded  # what dvc.lock holds


def test_another_version_than_requirements_state_is_refused(tmp_path: Path) -> None:
    chess = get_domain("chess")
    check_version(chess, tmp_path)
    text = requirements(DOMAINS)
    assert is_requirements(text)
    assert not is_requirements(f"{text}numpy\n")
    for name in ("requirements.txt", "requirements.lock"):
        file = tmp_path / name
        for right in ("numpy==1\noutofcore-extras==3\n", f"outofcore[chess,go] == {__version__}  # pinned\n", text):
            file.write_text(right)
            check_version(chess, tmp_path)
        for package in ("outofcore", "chess", "Rust-PGN.reader_python-binding", "zarr"):
            file.write_text(f"numpy==1\n{package}==0.0.1\n")
            with pytest.raises(
                ParamsError, match=r"the installed version, got 0\.0\.1; install that one, or take over"
            ):
                check_version(chess, tmp_path)
        file.write_text("sgfmill==0.0.1\n")  # of another domain
        check_version(chess, tmp_path)
        file.unlink()


@pytest.mark.parametrize(
    ("installed", "expected"),
    [
        (None, "outofcore[go,project]=="),  # from an index
        (
            {"url": "https://host/ooc.git", "vcs_info": {"vcs": "git", "commit_id": "1a2b"}},
            "outofcore[go,project] @ git+https://host/ooc.git@1a2b # ==",
        ),
        (
            {"url": "file:///w/ooc-1-py3-none-any.whl", "archive_info": {}},
            "outofcore[go,project] @ file:///w/ooc-1-py3-none-any.whl # ==",
        ),
        ({"url": "file:///clone", "dir_info": {"editable": True}}, "outofcore[go,project] @ file:///clone # =="),
    ],
)
def test_requirements_install_what_is_installed(
    installed: Any, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "outofcore-9.dist-info").mkdir()
    (tmp_path / "outofcore-9.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: outofcore\nVersion: 9\n")
    if installed is not None:  # as pip leaves it, by PEP 610
        (tmp_path / "outofcore-9.dist-info/direct_url.json").write_text(json.dumps(installed))
    monkeypatch.syspath_prepend(tmp_path)
    text = requirements(["go"])
    assert text.startswith(f"{expected}9\n")
    assert Requirement(text.partition(" #")[0].partition("\n")[0]).name == "outofcore"
    assert is_requirements(text)
    (tmp_path / "requirements.txt").write_text(text.replace("==9\n", "==0.0.1\n"))
    with pytest.raises(ParamsError, match=r"expected outofcore .*, the installed version, got 0\.0\.1"):
        check_version(get_domain("go"), tmp_path)


def test_a_package_that_provides_a_domain_counts_too(tmp_path: Path) -> None:
    """Its new version is noticed, named, and taken over, so that what it changed runs again."""
    install_dna(tmp_path / "site")
    (made,) = json.loads(run(tmp_path, COMMANDS, "init p --domains dna").stdout).values()
    assert made[0] == 0, made
    file = tmp_path / "p/requirements.txt"
    assert re.match(rf"outofcore\[project\]( @ \S+ # )?=={__version__}\ndna-for-training==1.2\n", file.read_text())
    whole = file.read_text()
    file.write_text(whole.replace("dna-for-training==1.2", "DNA_for.training == 1.1"))
    check = (
        "import pathlib; from outofcore.project.code import check_version as c;"
        "from outofcore.domains.registry import get_domain as g; c(g('dna'), pathlib.Path('p'))"
    )
    assert "expected dna-for-training 1.2, the installed version, got 1.1; install" in run(tmp_path, check).stderr
    file.write_text(whole.replace("dna-for-training==1.2", "dna-for-training==1.1"))
    assert "changed  requirements.txt" in run(tmp_path, COMMANDS, "init p").stdout
    assert run(tmp_path, check).returncode == 0
