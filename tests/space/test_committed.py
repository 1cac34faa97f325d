"""What the real DVC leaves after a full disk, and whether it is noticed."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from outofcore.errors import ParamsError
from outofcore.space.committed import committed
from outofcore.space.dvc_cache import REMOVE_OLD, find_cache
from outofcore.space.dvc_lock import stated_bytes
from tests.space.conftest import MIB, Disk, dvc, project

FILES = 6


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose stage has run and is committed; to be copied."""
    root = project(tmp_path_factory.mktemp("ran") / "p", "[cache]\n    type = hardlink,symlink\n", files=FILES)
    ended = dvc(root, "repro", "-q")
    assert ended.returncode == 0, ended.stderr
    return root


@pytest.fixture
def done(ran: Path, tmp_path: Path) -> Path:
    """That project, in a folder of its own."""
    return Path(shutil.copytree(ran, tmp_path / "p"))


def test_a_commit_that_went_well(done: Path) -> None:
    found = committed(done)
    assert found.problems == ()
    assert [(each.stage, each.path, each.bytes, each.files) for each in found.outputs] == [
        ("write", "out.zarr", FILES * MIB, FILES)
    ]
    cache = find_cache(done)
    assert cache is not None
    assert stated_bytes(done) == FILES * MIB


def test_an_empty_file_is_a_whole_file(done: Path) -> None:
    (done / "out.zarr" / "empty").touch()
    assert dvc(done, "commit", "-q", "-f").returncode == 0
    found = committed(done)
    assert found.problems == ()
    assert [(each.bytes, each.files) for each in found.outputs] == [(FILES * MIB, FILES + 1)]


def test_outside_of_dvc_is_told(tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match=r"found no \.dvc folder"):
        committed(tmp_path)


def test_before_the_first_run_there_is_nothing_to_find(tmp_path: Path) -> None:
    found = committed(project(tmp_path / "p", ""))
    assert (found.outputs, found.problems) == ((), ())


def objects(root: Path) -> tuple[Path, list[Path]]:
    """The list of files in the cache, and the files."""
    cache = find_cache(root)
    assert cache is not None
    (listing,) = cache.objects.glob("*/*.dir")
    digests = [entry["md5"] for entry in json.loads(listing.read_bytes())]
    return listing, [cache.objects / digest[:2] / digest[2:] for digest in digests]


def test_lost_objects_are_counted(done: Path) -> None:
    _, files = objects(done)
    files[0].unlink()
    files[3].unlink()
    (problem,) = committed(done).problems
    assert "out.zarr of write" in problem
    assert f"lacks 2 of its {FILES} files" in problem
    assert "'dvc pull'" in problem
    assert dvc(done, "commit", "-q", "-f").returncode == 0
    assert committed(done).problems == ()


def test_an_object_of_another_size_is_found(done: Path) -> None:
    _, files = objects(done)
    files[0].chmod(0o644)
    files[0].write_bytes(bytes(10))
    (problem,) = committed(done).problems
    assert f"holds {(FILES - 1) * MIB + 10} bytes of it, stated are {FILES * MIB}" in problem


def test_a_lost_or_damaged_list_of_files_is_found(done: Path) -> None:
    listing, _ = objects(done)
    content = listing.read_bytes()
    listing.unlink()
    assert "lacks its list of files" in committed(done).problems[0]
    listing.write_bytes(content[:100])
    assert "is damaged" in committed(done).problems[0]


@pytest.mark.parametrize("kept", [0.0, 0.1, 0.3, 0.5, 0.9])
def test_a_lock_file_that_was_cut_off_is_explained(done: Path, kept: float) -> None:
    lock = done / "dvc.lock"
    content = lock.read_text()
    lock.write_text(content[: int(len(content) * kept)])
    problems = committed(done).problems
    assert len(problems) == 1
    assert problems[0].startswith("dvc.lock is not whole (")
    assert "'git checkout dvc.lock'" in problems[0]
    assert dvc(done, "status", "-q").returncode != 0


def test_a_lock_file_cut_off_at_the_end_of_a_line(done: Path) -> None:
    lock = done / "dvc.lock"
    lines = lock.read_text().splitlines(keepends=True)
    for kept in range(len(lines)):
        lock.write_text("".join(lines[:kept]))
        assert committed(done).problems, f"{kept} of {len(lines)} lines"


def test_stages_that_are_gone_and_figures_outside_the_cache_do_not_count(done: Path) -> None:
    lock = done / "dvc.lock"
    lock.write_text(lock.read_text() + "  gone:\n    cmd: x\n    outs:\n    - path: y\n      md5: " + 32 * "a" + "\n")
    cache = find_cache(done)
    assert cache is not None
    figures = cache.objects / "99" / "914b932bd37a50b983c5e7c90ae93b"
    figures.unlink(missing_ok=True)
    assert committed(done).problems == ()
    assert dvc(done, "status", "-q").returncode == 0


def test_stages_made_from_a_template(tmp_path: Path) -> None:
    root = project(
        tmp_path / "p",
        "[cache]\n    type = hardlink,symlink\n",
        files=1,
        extra=(
            "  each:\n    matrix:\n      name: [a, b]\n    cmd: mkdir -p ${item.name} && echo ${item.name} > "
            "${item.name}/x && echo 1 > ${item.name}.json && "
            "echo 2 > ${item.name}.csv\n    deps: [in.txt]\n    outs: ['${item.name}']\n"
            "    metrics:\n    - ${item.name}.json:\n        cache: false\n"
            "    plots:\n    - ${item.name}.csv:\n        cache: false\n"
        ),
    )
    ended = dvc(root, "repro", "-q")
    assert ended.returncode == 0, ended.stderr
    found = committed(root)
    assert found.problems == ()
    assert sorted((each.stage, each.path) for each in found.outputs) == [
        ("each@a", "a"),
        ("each@b", "b"),
        ("write", "out.zarr"),
    ]


def test_files_that_were_added_count_as_well(done: Path) -> None:
    (done / "raw").mkdir()
    (done / "raw" / "games.pgn").write_text("1. e4 e5 *\n")
    assert dvc(done, "add", "-q", "raw/games.pgn").returncode == 0
    assert committed(done).problems == ()
    assert ("games.pgn.dvc", "raw/games.pgn") in [(each.stage, each.path) for each in committed(done).outputs]
    cache = find_cache(done)
    assert cache is not None
    shutil.rmtree(cache.objects)
    assert len(committed(done).problems) == 2
    (problem,) = committed(done, ["write"]).problems
    assert problem.startswith("out.zarr of write")
    with pytest.raises(ParamsError, match="no lock file states an output of train; stated are write, "):
        committed(done, ["train"])


EACH = (
    "  each:\n    foreach:\n      a: {}\n      b: {}\n    do:\n      cmd: mkdir -p ${key} && echo ${key} > ${key}/x && "
    "echo none > ${key}.csv\n      deps: [in.txt]\n      outs: ['${key}', '${key}.csv']\n"
)


@pytest.fixture
def half(tmp_path: Path) -> Path:
    """A clone of a project of two domains, of which one has run here; both have written one equal file."""
    whole = project(tmp_path / "whole", "[cache]\n    type = hardlink,symlink\n", files=1, extra=EACH)
    assert dvc(whole, "repro", "-q").returncode == 0
    clone = project(tmp_path / "clone", "[cache]\n    type = hardlink,symlink\n", files=1, extra=EACH)
    shutil.copy(whole / "dvc.lock", clone)
    assert dvc(clone, "repro", "-q", "each@a").returncode == 0
    return clone


def test_what_never_ran_here_is_no_problem(half: Path) -> None:
    found = committed(half)
    assert found.problems == ()
    assert set(found.absent) == {"each@b", "write"}
    assert [each.path for each in found.outputs] == ["a", "a.csv"]
    (problem,) = committed(half, ["each@b"]).problems
    assert problem.startswith("b of each@b: the cache")


def test_where_nothing_is_left_it_is_a_problem(done: Path) -> None:
    shutil.rmtree(done / "out.zarr")
    shutil.rmtree(done / ".dvc/cache")
    found = committed(done)
    assert found.absent == ("write",)
    (problem,) = found.problems
    assert problem.startswith("nothing that dvc.lock states is here")
    assert "'dvc pull' fetches" in problem


def test_what_has_run_here_must_be_whole_wherever_it_is_left(half: Path) -> None:
    listing = next((half / ".dvc/cache/files/md5").glob("*/*.dir"))
    shutil.rmtree(half / "a")
    (half / "a.csv").unlink()
    content = listing.read_bytes()
    listing.chmod(0o644)
    listing.write_bytes(content[:10])  # the workspace has nothing, and the cache a part
    assert "is damaged" in committed(half).problems[0]
    listing.unlink()
    (half / "a.csv").write_text("none\n")  # the cache has nothing, and the workspace a part
    assert "lacks its list of files" in committed(half).problems[0]


def test_a_domain_that_left_the_project_does_not_count(half: Path) -> None:
    definition = half / "dvc.yaml"
    definition.write_text(definition.read_text().replace("      b: {}\n", ""))
    assert committed(half).absent == ("write",)
    with pytest.raises(ParamsError, match="no lock file states an output of each@b; stated are "):
        committed(half, ["each@b"])


def test_input_that_a_clone_would_lack_is_named(done: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=done, check=True)
    assert committed(done).unshared == ()  # Git would take it
    (done / ".gitignore").write_text("/in.txt\n")
    found = committed(done)
    assert (found.unshared, found.problems) == (("in.txt",), ())
    assert dvc(done, "add", "-q", "in.txt").returncode == 0
    assert committed(done).unshared == ()


@pytest.mark.root
def test_a_full_cache_is_noticed_where_dvc_tells_of_success(disk: Disk, tmp_path: Path) -> None:
    small = disk("tmpfs", 4)
    root = project(tmp_path / "p", f"[cache]\n    type = copy\n    dir = {small / 'cache'}\n", files=FILES)
    assert dvc(root, "repro").returncode == 0  # what this check is there for
    found = committed(root)
    assert "out.zarr of write: the cache" in found.problems[0]
    assert "lacks its list of files" in found.problems[0]
    assert found.unfinished[0] > 0
    assert found.problems[1].endswith(f"; {REMOVE_OLD} removes them")
    subprocess.run(["mount", "-o", "remount,size=32m", str(small)], check=True)
    assert dvc(root, "commit", "-q").returncode == 0
    assert committed(root).problems == ()
    # No Git here, and so no experiments to keep.
    assert dvc(root, "gc", "-w", "-f", "-q").returncode == 0
    assert committed(root).unfinished == (0, 0)


@pytest.mark.root
def test_a_lock_file_that_a_full_disk_cut_off(disk: Disk) -> None:
    small = disk("tmpfs", 9)
    root = project(small / "p", "[cache]\n    type = copy\n", files=FILES)
    assert dvc(root, "repro", "-q").returncode != 0
    lock = root / "dvc.lock"
    if not lock.exists():
        pytest.skip("DVC wrote no lock file this time")
    (problem, *_) = committed(root).problems
    assert problem.startswith("dvc.lock is not whole (")
    assert "'git checkout dvc.lock'" in problem
