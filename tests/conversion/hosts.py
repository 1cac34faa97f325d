"""Hosts in network namespaces, joined by a bridge: processes in one reach the others by its network only."""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Host:
    """A network namespace.

    Attributes
    ----------
    name
        Its name to ``ip netns``; "" for this machine as it is.
    address
        Its IPv4 address on the bridge.
    """

    name: str
    address: str

    def prefix(self) -> list[str]:
        """What goes before a command that this host is to run."""
        return ["ip", "netns", "exec", self.name] if self.name else []

    def cut(self) -> None:
        """Pull the cable: nobody is told, packets are lost."""
        _ip("link", "set", f"b-{self.name}", "down")


_TAGS = itertools.count(os.getpid() % 10_000 * 100)
HERE = Host("", "127.0.0.1")


@contextmanager
def open_hosts(count: int) -> Iterator[list[Host]]:
    """Some hosts; the test is skipped where they cannot be made."""
    if os.geteuid():
        pytest.skip("needs root, to make network namespaces")
    tag = next(_TAGS)
    bridge = f"oc{tag}"
    hosts = [Host(f"oc{tag}-{number}", f"10.213.{tag % 250}.{number + 10}") for number in range(count)]
    try:
        if _ip("link", "add", bridge, "type", "bridge", check=False):
            pytest.skip("needs network namespaces")
        _ip("link", "set", bridge, "up")
        for host in hosts:
            _ip("netns", "add", host.name)
            _ip("link", "add", f"b-{host.name}", "type", "veth", "peer", "name", "eth0", "netns", host.name)
            _ip("link", "set", f"b-{host.name}", "master", bridge, "up")
            _ip("-n", host.name, "addr", "add", f"{host.address}/24", "dev", "eth0")
            _ip("-n", host.name, "link", "set", "eth0", "up")
            _ip("-n", host.name, "link", "set", "lo", "up")
        yield hosts
    finally:
        for host in hosts:
            _ip("netns", "del", host.name, check=False)
        _ip("link", "del", bridge, check=False)


def _ip(*words: str, check: bool = True) -> int:
    return subprocess.run(["ip", *words], check=check, capture_output=True).returncode
