"""A cluster of hosts that share a folder and nothing else: the bytes of one machine, or one line."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outofcore.domains.registry import DOMAINS, get_domain
from outofcore.domains.text.tokens.learn import make_tokenizer
from outofcore.params import load_params
from outofcore.raw.files import find_files
from tests.conversion.clusters import CHECKOUT, Cluster, environment
from tests.conversion.hosts import HERE, Host, open_hosts

pytest.importorskip("distributed", reason="the extra 'cluster' is not installed")
pytestmark = [pytest.mark.apart, pytest.mark.root, pytest.mark.timeout(1800)]

# Of text, so that a conversion takes some seconds.
MEGABYTES = 24
# After how long a silent connection counts as lost; Dask takes no less than 13 seconds, its own default is 30.
SILENCE = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "15s"}


@pytest.fixture(scope="module")
def hosts() -> Iterator[list[Host]]:
    with open_hosts(4) as hosts:
        yield hosts


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Samples of all domains, more text, and the tokenizer, in a folder that all hosts see."""
    folder = tmp_path_factory.mktemp("project")
    rng = np.random.default_rng(0)
    for name in DOMAINS:
        (folder / "raw" / name).mkdir(parents=True)
        get_domain(name).sample(folder / "raw" / name, rng)
    section = load_params(CHECKOUT / "params.yaml").section("text")
    files = find_files(folder / "raw/text", section.match, get_domain("text").suffixes, section="text")
    (folder / section.tokenizer.path).parent.mkdir(parents=True)
    (folder / section.tokenizer.path).write_text(make_tokenizer(section, files), encoding="utf-8", newline="\n")
    words = np.array([file.path.read_text("utf-8", "replace").split() or ["a"] for file in files[:20]], object)
    words = np.concatenate(words)
    (folder / "more/text").mkdir(parents=True)
    with (folder / "more/text/a.jsonl").open("w") as stream:
        while stream.tell() < MEGABYTES << 20:
            stream.write(json.dumps({"text": " ".join(rng.choice(words, 400))}) + "\n")
    return folder


@contextmanager
def open_cluster(folder: Path, project: Path, hosts: list[Host], *options: str) -> Iterator[Cluster]:
    """The scheduler on the first host, a worker on each of the others."""
    folder.mkdir()
    cluster = Cluster(folder, hosts[0])
    try:
        cluster.wait()
        for host in hosts[1:]:
            cluster.add_worker(*options, folder=project, host=host)
        yield cluster
    finally:
        cluster.close()


def start(project: Path, host: Host, address: str, out: str, raw: str, *names: str, **more: str) -> Any:
    command = [*host.prefix(), sys.executable, "-m", "tests.conversion.driver", address, out, raw, *names]
    return subprocess.Popen(
        command, cwd=project, env=environment(**more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def digests(process: Any) -> dict[str, str]:
    out, err = process.communicate()
    assert process.returncode == 0, err
    return {facts["name"]: facts["digest"] for facts in map(json.loads, out.splitlines())}


def wait_for(pattern: str, folder: Path, count: int, process: Any) -> None:
    """Wait until a conversion has come so far."""
    while len([*folder.glob(pattern)]) < count:
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


def test_three_hosts_give_the_bytes_of_one_machine(hosts: list[Host], project: Path, tmp_path: Path) -> None:
    expected = digests(start(project, HERE, "", str(tmp_path / "here"), "raw", *DOMAINS))
    with open_cluster(tmp_path / "cluster", project, hosts) as cluster:
        found = digests(start(project, hosts[0], cluster.address, str(tmp_path / "there"), "raw", *DOMAINS))
    assert found == expected
    assert set(found) == set(DOMAINS)


@pytest.mark.parametrize("how", ["cut", "killed"])
def test_a_host_that_is_lost_costs_no_byte(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    for name, value in SILENCE.items():
        monkeypatch.setenv(name, value)
    expected = digests(start(project, HERE, "", str(tmp_path / "here"), "more", "text"))
    with open_hosts(4) as hosts, open_cluster(tmp_path / "cluster", project, hosts) as cluster:
        there = tmp_path / "there"
        process = start(project, hosts[0], cluster.address, str(there), "more", "text")
        wait_for("text/lines.zarr.work/store/*/tokens/*", there, 1, process)
        if how == "cut":
            hosts[1].cut()
        else:
            cluster.workers[0].kill()
        assert digests(process) == expected


def test_a_driver_that_is_cut_off_is_one_line_and_the_next_run_goes_on(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SILENCE.items():
        monkeypatch.setenv(name, value)
    expected = digests(start(project, HERE, "", str(tmp_path / "here"), "more", "text"))
    with open_hosts(3) as hosts, open_cluster(tmp_path / "cluster", project, hosts[:2]) as cluster:
        there = tmp_path / "there"
        process = start(project, hosts[2], cluster.address, str(there), "more", "text")
        wait_for("text/lines.zarr.work/store/*/tokens/*", there, 1, process)
        hosts[2].cut()
        _, err = process.communicate()
        assert process.returncode == 2
        assert err.count("error: ") == 1
        assert "the connection to the scheduler is lost; run the same command again" in err
        assert digests(start(project, hosts[0], cluster.address, str(there), "more", "text")) == expected
