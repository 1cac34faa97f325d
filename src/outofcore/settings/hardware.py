"""Cores and memory available to this process, by affinity and control group."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

_UNLIMITED = 1 << 62  # version 1 states "no limit" as a number near 2**63


@dataclass(frozen=True)
class Measured:
    """A quantity and how it was found."""

    value: int  # cores, or bytes
    how: str  # such as "4 cores by affinity, 1.5 by cgroup quota"


def usable_cores(root: Path = Path("/")) -> Measured:
    """Cores available to this process: the smaller of affinity and cgroup quota, at least one."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [quota for folder in _groups("cpu", root) if (quota := _quota(folder)) is not None]
    if not quotas or min(quotas) >= allowed:
        return Measured(allowed, f"{allowed} by affinity")
    quota = min(quotas)
    return Measured(max(1, math.floor(quota)), f"{allowed} by affinity, {quota:g} by cgroup quota")


def usable_memory(root: Path = Path("/")) -> Measured:
    """Bytes of memory still available to this process: the smaller of the machine's and its cgroup's.

    Page cache counts as free, as the kernel reclaims it. ``root`` contains ``proc`` and ``sys``.
    """
    available = psutil.virtual_memory().available
    rooms = [room for folder in _groups("memory", root) if (room := _room(folder)) is not None]
    if not rooms or min(rooms) >= available:
        return Measured(available, "available on the machine")
    return Measured(max(0, min(rooms)), "left under the cgroup's limit")


def queue_workers() -> int:
    """How many workers the queue of DVC has that this process runs in; 1 outside of a queue.

    A worker is named by the hash of its project and a number, ``dvc-exp-1a2b3c-2@localhost``.
    """
    own = next(filter(None, map(_queue_worker, psutil.Process().parents())), None)
    if own is None:
        return 1
    queue = own.rpartition("-")[0]
    names = map(_queue_worker, psutil.process_iter())
    return len({name for name in names if name and name.rpartition("-")[0] == queue})


def _queue_worker(process: psutil.Process) -> str | None:
    try:
        words = process.cmdline()
    except psutil.Error:
        return None
    name = next((word for word in words if word.startswith("dvc-exp-")), None)
    return name if "queue-worker" in words else None


def _groups(controller: str, root: Path) -> Iterator[Path]:
    """Folders of this process's control groups of either version, innermost first, as far as visible."""
    mounts = list(_mounts(controller, root))
    for version, path in _memberships(controller, root):
        for mount_version, mount_root, mount_point in mounts:
            if mount_version != version:
                continue
            top = root / mount_point.lstrip("/")
            inside = os.path.relpath(path, mount_root)
            folder = top if inside.startswith("..") else top / inside
            yield folder
            while folder != top:
                folder = folder.parent
                yield folder


def _memberships(controller: str, root: Path) -> Iterator[tuple[int, str]]:
    """Version and path of the groups in /proc/self/cgroup; version 2 has one line for all controllers."""
    for line in _lines(root / "proc/self/cgroup"):
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            yield 2, path
        elif controller in controllers.split(","):
            yield 1, path


def _mounts(controller: str, root: Path) -> Iterator[tuple[int, str, str]]:
    """Version, root and mount point of the control group hierarchies in /proc/self/mountinfo."""
    for line in _lines(root / "proc/self/mountinfo"):
        before, _, after = line.partition(" - ")
        mount_root, mount_point = before.split()[3:5]
        kind, _, options = after.split()[:3]
        if kind == "cgroup2":
            yield 2, mount_root, mount_point
        elif kind == "cgroup" and controller in options.split(","):
            yield 1, mount_root, mount_point


def _quota(folder: Path) -> float | None:
    """Cores that a group may use; None for no limit."""
    for line in _lines(folder / "cpu.max"):
        limit, of = line.split()
        return None if limit == "max" else int(limit) / int(of)
    quota, period = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
    return quota / period if quota is not None and period and quota > 0 else None


def _room(folder: Path) -> int | None:
    """Bytes between a group's use, without page cache, and its limit; None for no limit."""
    for limit_file, use_file, cache_key in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        limit, use = _number(folder / limit_file), _number(folder / use_file)
        if limit is None or use is None or limit >= _UNLIMITED:
            continue
        facts = dict(line.split() for line in _lines(folder / "memory.stat"))
        return limit - use + int(facts.get(cache_key, 0))
    return None


def _number(path: Path) -> int | None:
    for line in _lines(path):
        return None if line == "max" else int(line)
    return None


def _lines(path: Path) -> list[str]:
    """Lines of a kernel file; empty if it does not exist."""
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
