"""Small real filesystems, and DVC projects on them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import REAL_FSYNC
from tests.processes import run_dvc

MIB = 2**20
MAKE = {
    "ext4": ["mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal"],
    "btrfs": ["mkfs.btrfs", "-q", "--mixed"],
    "xfs": ["mkfs.xfs", "-q"],
}
Disk = Callable[..., Path]


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """Mounts a filesystem of a kind and a size in MiB in a folder of its own; all are unmounted afterwards."""
    if os.geteuid() != 0:
        pytest.skip("mounting a filesystem needs root")
    monkeypatch.setattr(os, "fsync", REAL_FSYNC)  # which some find full only then
    mounted: list[Path] = []

    def mount(kind: str, mib: int) -> Path:
        folder = tmp_path / f"disk{len(mounted)}"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(folder)]
        if kind != "tmpfs":
            if shutil.which(MAKE[kind][0]) is None:
                pytest.skip(f"{MAKE[kind][0]} is not installed")
            image = folder.with_suffix(".img")
            with image.open("wb") as file:
                file.truncate(mib * MIB)
            subprocess.run([*MAKE[kind], str(image)], check=True, capture_output=True)
            command = ["mount", "-o", "loop", str(image), str(folder)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"mounting a {kind} is refused here: {done.stderr.strip()}")
        mounted.append(folder)
        return folder

    yield mount
    for folder in reversed(mounted):
        if subprocess.run(["umount", str(folder)], check=False).returncode:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture(autouse=True)
def no_settings_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DVC's settings of the user and the system, and its state, lie in an empty folder."""
    monkeypatch.setenv("DVC_GLOBAL_CONFIG_DIR", str(tmp_path / "no-global"))
    monkeypatch.setenv("DVC_SYSTEM_CONFIG_DIR", str(tmp_path / "no-system"))
    monkeypatch.setenv("DVC_SITE_CACHE_DIR", str(tmp_path / "site"))
    monkeypatch.setenv("DVC_NO_ANALYTICS", "1")


def dvc(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the real DVC in a project."""
    return run_dvc(*arguments, folder=project, environment=os.environ)


def project(folder: Path, config: str, *, files: int = 6, extra: str = "") -> Path:
    """A DVC project without Git whose one stage writes ``out.zarr``: so many files of 1 MiB, no two alike."""
    folder.mkdir(parents=True)
    (folder / ".dvc").mkdir()
    (folder / ".dvc" / "config").write_text(f"[core]\n    no_scm = true\n    analytics = false\n{config}")
    (folder / "in.txt").write_text("raw input\n")
    (folder / "write.py").write_text(
        "import os, pathlib\n"
        "out = pathlib.Path('out.zarr')\n"
        "out.mkdir()\n"
        f"for n in range({files}):\n"
        f"    (out / f'c.{{n}}').write_bytes(os.urandom({MIB}))\n"
        "pathlib.Path('figures.json').write_text('{}')\n"
    )
    (folder / "dvc.yaml").write_text(
        f"stages:\n  write:\n    cmd: {sys.executable} write.py\n    deps: [in.txt]\n    outs: [out.zarr]\n"
        f"    metrics:\n    - figures.json:\n        cache: false\n{extra}"
    )
    return folder


def used(folder: Path) -> int:
    """Bytes that are taken on the filesystem of a folder."""
    os.sync()
    facts = os.statvfs(folder)
    return (facts.f_blocks - facts.f_bfree) * facts.f_frsize
