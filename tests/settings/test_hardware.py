"""Cores and memory, from control groups of both versions and of this very machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from outofcore.settings.hardware import queue_workers, usable_cores, usable_memory

GIB = 2**30
NONE_V1 = "9223372036854771712\n"


def lay_out(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


MOUNT_V2 = "30 24 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"
MOUNTS_V1 = (
    "31 24 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
    "32 24 0:29 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
)


@pytest.fixture
def sixteen_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))


@pytest.mark.usefixtures("sixteen_cores")
def test_cores_without_control_groups_are_those_of_the_affinity(tmp_path: Path) -> None:
    found = usable_cores(tmp_path)
    assert (found.value, found.how) == (16, "16 by affinity")


def version_2(folder: str, **files: str) -> dict[str, str]:
    """The files of control groups below a folder, for a process in ``/slice/job``."""
    groups = {f"sys/fs/cgroup/slice/{folder}/{name}": text for name, text in files.items()}
    return {"proc/self/cgroup": "0::/slice/job\n", "proc/self/mountinfo": MOUNT_V2, **groups}


@pytest.mark.usefixtures("sixteen_cores")
@pytest.mark.parametrize(
    ("own", "above", "cores"),
    [
        ("max 100000\n", "max 100000\n", 16),
        ("250000 100000\n", "max 100000\n", 2),
        ("50000 100000\n", "max 100000\n", 1),
        ("max 100000\n", "300000 100000\n", 3),
        ("900000 100000\n", "400000 100000\n", 4),
        ("6400000 100000\n", "max 100000\n", 16),
    ],
)
def test_cores_under_version_2_are_the_least_of_all_groups_above(
    tmp_path: Path, own: str, above: str, cores: int
) -> None:
    root = lay_out(tmp_path, version_2("job", **{"cpu.max": own}) | version_2(".", **{"cpu.max": above}))
    assert usable_cores(root).value == cores


def version_1(path: str, controller: str, mounts: str = MOUNTS_V1, **files: str) -> dict[str, str]:
    """The files of a control group of version 1, with the place of its files below the controller's mount."""
    groups = {f"sys/fs/cgroup/{controller}/{name}": text for name, text in files.items()}
    return {"proc/self/cgroup": f"4:{controller}:{path}\n0::/\n", "proc/self/mountinfo": mounts, **groups}


@pytest.mark.usefixtures("sixteen_cores")
@pytest.mark.parametrize(("quota", "cores"), [("-1", 16), ("350000", 3)])
def test_cores_under_version_1(tmp_path: Path, quota: str, cores: int) -> None:
    files = {"docker/abc/cpu.cfs_quota_us": quota, "docker/abc/cpu.cfs_period_us": "100000"}
    found = usable_cores(lay_out(tmp_path, version_1("/docker/abc", "cpu,cpuacct", **files)))
    assert found.value == cores
    assert ("3.5 by cgroup quota" in found.how) == (cores == 3)


CACHE = {"memory.max": "1000000\n", "memory.current": "700000\n", "memory.stat": "anon 5\ninactive_file 150000\n"}
USED_UP = {
    "memory.limit_in_bytes": "2000000\n",
    "memory.usage_in_bytes": "2500000\n",
    "memory.stat": "cache 5\ntotal_inactive_file 100000\n",
}
CONTAINER = MOUNTS_V1.replace(" / /sys/fs/cgroup/memory", " /docker/abc /sys/fs/cgroup/memory")
UNLIMITED = {"memory.limit_in_bytes": NONE_V1, "memory.usage_in_bytes": "5\n"}


@pytest.mark.parametrize(
    ("files", "left"),
    [
        pytest.param({}, None, id="no groups"),
        pytest.param(version_2("job", **CACHE), 450_000, id="version 2, page cache given back"),
        pytest.param(version_1("/docker/abc", "memory", CONTAINER, **USED_UP), 0, id="version 1 in a container"),
        pytest.param(version_1("/", "memory", **UNLIMITED), None, id="no limit in version 1"),
    ],
)
def test_memory_is_what_the_machine_has_or_the_group_leaves(
    tmp_path: Path, files: dict[str, str], left: int | None
) -> None:
    found = usable_memory(lay_out(tmp_path, files))
    if left is None:
        assert found.value == pytest.approx(psutil.virtual_memory().available, rel=0.2)
        assert found.how == "available on the machine"
    else:
        assert (found.value, found.how) == (left, "left under the cgroup's limit")


def test_affinity_counts_on_this_machine() -> None:
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("this system has no affinity")
    code = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    code += "from outofcore.settings.hardware import usable_cores; print(usable_cores().value)"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "1\n"


@pytest.fixture
def limited_group() -> Iterator[Path]:
    """A control group of version 1 or 2 with a limit of 1 GiB of memory."""
    if os.geteuid() != 0:
        pytest.skip("making a control group needs root")
    for folder, limit in (
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        ("/sys/fs/cgroup", "memory.max"),
    ):
        group = Path(folder) / f"outofcore-test-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            if (group / limit).exists():
                (group / limit).write_text(str(GIB))
                yield group
                return
        finally:
            group.rmdir()
    pytest.skip("no control group for memory can be made here")


@pytest.mark.root
def test_a_real_limit_of_memory_is_seen(limited_group: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path\n"
        f"Path({str(limited_group)!r}, 'cgroup.procs').write_text(str(os.getpid()))\n"
        "from outofcore.settings.hardware import usable_memory; found = usable_memory(); print(found.value, found.how)"
    )
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    value, _, how = told.strip().partition(" ")
    assert GIB // 2 < int(value) <= GIB
    assert how == "left under the cgroup's limit"


def test_a_process_knows_how_many_workers_its_queue_has(tmp_path: Path) -> None:
    asks = (
        f"[{sys.executable!r}, '-c', 'from outofcore.settings.hardware import queue_workers; print(queue_workers())']"
    )
    worker = tmp_path / "dvc"
    worker.write_text(f"import subprocess\nsubprocess.run({asks}, check=True)\ninput()\n")

    def started(name: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(worker), "exp", "queue-worker", name, "--clean"]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    assert queue_workers() == 1
    workers, told = [], []
    for name in ("dvc-exp-aaaaaa-1@localhost", "dvc-exp-bbbbbb-1@localhost", "dvc-exp-aaaaaa-2@localhost"):
        workers.append(started(name))
        out = workers[-1].stdout
        assert out is not None
        told.append(int(out.readline()))
    for each in workers:
        each.communicate("\n")
    assert told == [1, 1, 2]
