"""DVC's settings as we read them, compared with what DVC itself says of them; lock files that are damaged."""

from __future__ import annotations

from pathlib import Path

import pytest
from dvc import config as dvc_config

from outofcore.errors import OutOfCoreError, ParamsError
from outofcore.space.dvc_cache import DEFAULT_TYPES, _files, committed, find_cache
from tests.space.conftest import dvc, project


def test_outside_of_dvc_there_is_no_cache(tmp_path: Path) -> None:
    assert find_cache(tmp_path) is None


def test_without_settings_as_dvc_does(tmp_path: Path) -> None:
    root = project(tmp_path / "p", "")
    (root / "data" / "stores").mkdir(parents=True)
    found = find_cache(root / "data" / "stores")
    assert found is not None
    assert (found.project, found.folder, found.types) == (root, root / ".dvc" / "cache", DEFAULT_TYPES)
    assert found.origin == "DVC's default"
    assert dvc(root, "cache", "dir").stdout.strip() == str(found.folder)


@pytest.mark.parametrize(
    ("where", "text", "folder"),
    [
        ("", "[cache]\n    type = hardlink,symlink\n    dir = ../../elsewhere\n", "elsewhere"),
        (
            "",
            "[cache]\ntype = \"hardlink, symlink\"\n        dir='../other  folder' # there\n",
            "p/other  folder",
        ),
        ("local", "[CACHE]\n# a comment\n    Type = hardlink,symlink\n    dir = cache2\n", "p/.dvc/cache2"),
        ("global", "[cache]\n    type = hardlink , symlink\n    dir = deep/cache\n", "no-global/deep/cache"),
    ],
)
def test_settings_of_every_level_as_dvc_reads_them(tmp_path: Path, where: str, text: str, folder: str) -> None:
    root = project(tmp_path / "p", "" if where else text)
    if where == "local":
        (root / ".dvc" / "config.local").write_text(text)
    if where == "global":
        (tmp_path / "no-global").mkdir()
        (tmp_path / "no-global" / "config").write_text(text)
    found = find_cache(root)
    assert found is not None
    assert found.folder == tmp_path / folder
    assert found.types == ("hardlink", "symlink")
    asked = dvc(root, "cache", "dir").stdout.strip()
    assert (root / asked).resolve() == found.folder


def test_the_clone_overrules_the_project_overrules_the_user(tmp_path: Path) -> None:
    root = project(tmp_path / "p", "[cache]\n    type = symlink\n    dir = /of/the/project\n")
    (tmp_path / "no-global").mkdir()
    (tmp_path / "no-global" / "config").write_text("[cache]\n    type = copy\n    dir = /of/the/user\n")
    (root / ".dvc" / "config.local").write_text("[cache]\n    dir = /of/the/clone\n")
    found = find_cache(root)
    assert found is not None
    assert (found.folder, found.types) == (Path("/of/the/clone"), ("symlink",))
    assert found.origin == str(root / ".dvc" / "config")


def test_sections_of_remotes_do_not_count(tmp_path: Path) -> None:
    root = project(
        tmp_path / "p",
        "['remote \"cache\"']\n    url = /somewhere\n    type = copy\n[cache]\n    type = symlink\n",
    )
    found = find_cache(root)
    assert found is not None
    assert found.types == ("symlink",)


def test_an_unknown_link_is_named_with_its_file(tmp_path: Path) -> None:
    root = project(tmp_path / "p", "[cache]\n    type = hardlink,softlink\n")
    with pytest.raises(ParamsError, match=r"\.dvc/config: cache\.type: expected .*symlink.*, got 'softlink'"):
        find_cache(root)


@pytest.mark.parametrize(
    "text", ['[cache]\n    dir = "/mnt/a\n', "[cache]\n    type = a'b'c\n", "[cache]\n\xff", "[core\n"]
)
@pytest.mark.parametrize("name", ["config", "config.local"])
def test_settings_that_cannot_be_read_are_one_line_that_names_their_file(tmp_path: Path, text: str, name: str) -> None:
    root = project(tmp_path / "p", "")
    (root / ".dvc" / name).write_bytes(text.encode("latin-1"))
    with pytest.raises(ParamsError) as refused:
        find_cache(root)
    assert str(refused.value).startswith(f"{root / '.dvc' / name}: expected ")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("variables", [{}, {"XDG_CONFIG_HOME": "{}/x", "XDG_CONFIG_DIRS": "{}/y:{}/z"}])
def test_files_are_where_dvc_looks_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    for name in ("DVC_SYSTEM_CONFIG_DIR", "DVC_GLOBAL_CONFIG_DIR", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name, value in variables.items():
        monkeypatch.setenv(name, value.replace("{}", str(tmp_path)))
    root = project(tmp_path / "p", "")
    config = dvc_config.Config(str(root / ".dvc"))
    assert [str(file) for file in _files(root)] == [config.files[level] for level in config.LEVELS]


WHOLE = "schema: '2.0'\nstages:\n  sample@chess:\n    cmd: python stages/sample.py chess\n"


@pytest.mark.parametrize(
    ("lock", "expected"),
    [
        (
            f"{WHOLE}<<<<<<< HEAD\n    outs: []\n=======\n    deps: []\n>>>>>>> strong\n",
            "holds the conflict of a merge",
        ),
        (WHOLE[:-5], "is cut short"),
    ],
)
def test_a_lock_file_that_is_not_whole_is_named(tmp_path: Path, lock: str, expected: str) -> None:
    (tmp_path / ".dvc").mkdir()
    (tmp_path / "dvc.lock").write_text(lock)
    with pytest.raises(OutOfCoreError, match=rf"dvc\.lock {expected}") as raised:
        committed(tmp_path)
    assert "'dvc repro'" in str(raised.value)
