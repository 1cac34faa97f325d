"""Places to share a project by: a folder, a real sshd and a real S3 server, both on loopback."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.pipeline.conftest import Project
from tests.store.object_storage import serve

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin") or ""


@dataclass(frozen=True)
class Remote:
    """A remote as a team would name it.

    Attributes
    ----------
    url
        Of the remote.
    secrets
        Settings that stay on a machine.
    folder
        Where its objects lie, if in a folder.
    """

    url: str
    secrets: dict[str, str] = field(default_factory=dict)
    folder: Path | None = None

    def of(self, project: Project, *, behind: str = "") -> None:
        """Make it the remote of a clone; or another place there, with something behind its name."""
        project.dvc("remote", "add", "--local", "-f", "-d", "shared", self.url + behind)
        for key, value in self.secrets.items():
            project.dvc("remote", "modify", "--local", "shared", key, value)


@contextmanager
def open_remote(way: str, folder: Path) -> Iterator[Remote]:
    """A remote of a kind: ``folder``, ``ssh`` or ``s3``; the test is skipped where a part is missing."""
    folder.mkdir(parents=True)
    if way == "folder":
        yield Remote(str(folder / "remote"), folder=folder / "remote")
    elif way == "ssh":
        if not SSHD or find_spec("dvc_ssh") is None:
            pytest.skip("needs sshd (Debian: openssh-server) and dvc-ssh")
        with _sshd(folder) as (port, key):
            url = f"ssh://{getpass.getuser()}@127.0.0.1:{port}{folder / 'remote'}"
            yield Remote(url, {"keyfile": str(key)}, folder / "remote")
    else:
        if find_spec("dvc_s3") is None:
            pytest.skip("needs dvc-s3")
        with serve() as endpoint:
            keys = {"access_key_id": "reader", "secret_access_key": "secret", "region": "us-east-1"}
            yield Remote("s3://stores/dvc", {"endpointurl": endpoint, **keys})


@contextmanager
def _sshd(folder: Path) -> Iterator[tuple[int, Path]]:
    """A server for this user with keys of its own: its port, and the user's key."""
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    shutil.copy(folder / "user.pub", folder / "authorized")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    config = folder / "sshd_config"
    config.write_text(
        f"ListenAddress 127.0.0.1\nPort {port}\nHostKey {folder / 'host'}\nAuthorizedKeysFile {folder / 'authorized'}\n"
        f"PidFile {folder / 'pid'}\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nSubsystem sftp internal-sftp\n"
    )
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    with (folder / "log").open("w") as log:
        server = subprocess.Popen([SSHD, "-D", "-e", "-f", str(config)], stderr=log)
    try:
        _listening(port, server)
        yield port, folder / "user"
    finally:
        server.terminate()
        server.wait()


def _listening(port: int, server: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        assert server.poll() is None, "sshd has ended"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    message = f"no sshd at port {port}"
    raise TimeoutError(message)
