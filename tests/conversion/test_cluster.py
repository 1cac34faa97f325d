"""On a cluster of processes, conversion gives the bytes of one machine, whatever dies on the way."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from outofcore.conversion.executors import compare, open_cluster
from outofcore.conversion.inputs import versions
from outofcore.domains.registry import get_domain
from outofcore.domains.text.tokens.learn import make_tokenizer
from outofcore.errors import ClusterError, ParamsError, SpaceError
from outofcore.params import load_params
from outofcore.raw.files import find_files
from tests.cases import long_cases
from tests.conversion.clusters import CHECKOUT, Cluster, open_processes
from tests.conversion.lines import after_unit, convert, full, stop
from tests.samples import write_sample

pytest.importorskip("distributed", reason="the extra 'cluster' is not installed")

from distributed.comm import CommClosedError

pytestmark = [
    pytest.mark.xdist_group("cluster"),
    # Dask leaves sockets to the garbage collector when a scheduler dies under a client.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with open_processes(tmp_path_factory.mktemp("cluster"), workers=2) as cluster:
        yield cluster


@pytest.mark.parametrize("name", ["chess", "neural", *long_cases("go", "text")])
def test_two_workers_give_the_bytes_of_one_machine(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    domain = get_domain(name)
    section = load_params(CHECKOUT / "params.yaml").section(name)
    raw = tmp_path / "raw"
    raw.mkdir()
    write_sample(name, raw, 0)
    if name == "text":
        files = find_files(raw, section.match, domain.suffixes, section=name)
        Path(section.tokenizer.path).parent.mkdir(parents=True)
        Path(section.tokenizer.path).write_text(make_tokenizer(section, files), encoding="utf-8", newline="\n")
    expected = convert(raw, tmp_path / "threads", domain, section)
    found = convert(raw, tmp_path / "cluster", domain, section, address=cluster.address)
    assert found.seal.digest == expected.seal.digest
    assert found.figures == expected.figures
    assert (tmp_path / "cluster/rejects.csv").read_bytes() == (tmp_path / "threads/rejects.csv").read_bytes()


def test_a_worker_that_dies_costs_no_byte(cluster: Cluster, raw: Path, tmp_path: Path) -> None:
    cluster.add_worker()
    expected = convert(raw, tmp_path / "expected")
    watch = after_unit(8, lambda: cluster.workers[0].kill())
    found = convert(raw, tmp_path / "found", address=cluster.address, watch=watch)
    assert cluster.workers[0].wait() < 0
    assert found.seal.digest == expected.seal.digest


@pytest.mark.long
@pytest.mark.parametrize("then", ["threads", "cluster"])
def test_a_scheduler_that_dies_is_one_line_and_the_next_run_goes_on(
    cluster: Cluster, raw: Path, tmp_path: Path, then: str
) -> None:
    expected = convert(raw, tmp_path / "expected")
    with open_processes(tmp_path / "cluster", workers=1) as dying:
        watch = after_unit(18, dying.scheduler.kill)
        with pytest.raises(ClusterError, match="the connection to the scheduler is lost; run the same command again"):
            convert(raw, tmp_path / "found", address=dying.address, watch=watch, checkpoint_seconds=0)
    found = convert(raw, tmp_path / "found", address=cluster.address if then == "cluster" else "")
    assert found.seal.digest == expected.seal.digest
    assert found.resumed_units >= 18
    assert sorted(path.name for path in (tmp_path / "found").iterdir()) == ["lines.zarr", "rejects.csv"]


def test_what_one_machine_has_begun_a_cluster_ends(cluster: Cluster, raw: Path, tmp_path: Path) -> None:
    expected = convert(raw, tmp_path / "expected")
    for units in (21, 34):
        out = tmp_path / str(units)
        stop(raw, out, units)
        with pytest.raises(SpaceError):
            convert(raw, out, address=cluster.address, watch=after_unit(4, full))
        found = convert(raw, out, address=cluster.address)
        assert found.seal.digest == expected.seal.digest
        assert found.resumed_units == units + 5


@pytest.mark.long
def test_a_cluster_whose_workers_are_all_gone_is_one_line(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outofcore.conversion.executors.ALONE_SECONDS", 0)
    with open_processes(tmp_path / "cluster", workers=1) as cluster:
        watch = after_unit(8, lambda: cluster.workers[0].kill())
        with pytest.raises(ClusterError, match="all workers are gone; start some, and run the same command again"):
            convert(raw, tmp_path / "found", address=cluster.address, watch=watch)


def test_a_worker_that_does_not_see_the_input_is_refused(raw: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    files = find_files("raw", "**/*", (".txt",), section="lines")
    with open_processes(tmp_path / "cluster", workers=0) as cluster:
        cluster.add_worker(folder=raw)
        with (
            pytest.raises(ClusterError, match=r"worker tcp.* does not see raw/a\.txt .*: start workers in the project"),
            open_cluster(cluster.address, 1, files, "lines"),
        ):
            pass


def test_a_worker_of_another_version_is_refused() -> None:
    other = {**versions("lines"), "outofcore": "0.0"}
    with pytest.raises(ClusterError, match=r"worker tcp://a:1 has outofcore [\d.]+\+\w+, the driver 0.0"):
        compare("tcp://a:1", "lines", other, [])


def test_a_domains_package_that_only_one_side_has_is_named() -> None:
    here = versions("lines")
    compare("tcp://a:1", "lines", here, [])
    with pytest.raises(ClusterError, match=r"worker tcp://a:1 has dna-for-training none, the driver 1\.2: install"):
        compare("tcp://a:1", "lines", {**here, "dna-for-training": "1.2"}, [])
    fewer = {name: version for name, version in here.items() if name != "numpy"}
    with pytest.raises(ClusterError, match=r"worker tcp://a:1 has numpy [\d.]+, the driver none: install"):
        compare("tcp://a:1", "lines", fewer, [])


@pytest.mark.parametrize("lost", [False, True])
def test_a_worker_that_dies_while_all_are_checked_is_no_lost_scheduler(
    monkeypatch: pytest.MonkeyPatch, lost: bool
) -> None:
    client = MagicMock(status="closed" if lost else "running")
    client.nthreads.return_value = {"tcp://a:1": 1}
    client.register_plugin.side_effect = [CommClosedError("in <TCP (closed)>"), None]
    monkeypatch.setattr("outofcore.conversion.executors._client", lambda *_: nullcontext(client))
    if lost:
        with pytest.raises(ClusterError, match="the connection to the scheduler is lost"), open_cluster("", 1, [], "x"):
            pass
    else:
        with open_cluster("", 1, [], "lines") as executor:
            assert executor.width == 1


def test_no_scheduler_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outofcore.conversion.executors.CONNECT_SECONDS", 1)
    with (
        pytest.raises(ClusterError, match=r"no scheduler answers at tcp://127\.0\.0\.1:9"),
        open_cluster("tcp://127.0.0.1:9", 1, [], "lines"),
    ):
        pass


def test_without_dask_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ParamsError, match=r"pip install 'outofcore\[cluster\]'"), open_cluster("", 1, [], "lines"):
        pass


def test_nothing_of_dask_is_imported_on_one_machine() -> None:
    program = (
        "import sys; from outofcore.conversion.executors import open_executor\n"
        "with open_executor('threads', 1): pass\n"
        "assert not {'dask', 'distributed'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
