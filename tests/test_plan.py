"""A plan looks at the input where the conversion will."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import outofcore
from outofcore.domains.registry import get_domain
from outofcore.errors import ClusterError, ParamsError
from outofcore.plan import DomainPlan, plan_domain
from outofcore.settings.machine import load_machine
from tests.conversion.lines import Lines, LinesSection

MOVES = "".join(f";{'BW'[n % 2]}[{chr(97 + n % 19)}{chr(97 + n // 19)}]" for n in range(60))
GAME = f"(;GM[1]SZ[19]PB[a]PW[b]RE[B+R]KM[6.5]{MOVES})"


def planned_here(name: str, given: dict[str, Any], folder: Path) -> DomainPlan:
    domain = get_domain(name)
    return plan_domain(domain, domain.section.model_validate(given), folder / "store.zarr", load_machine())


def test_the_sample_is_converted_by_the_cluster_that_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("1 2 3\n")
    monkeypatch.setenv("OUTOFCORE_ENGINE", "dask")
    monkeypatch.setenv("OUTOFCORE_DASK", "tcp://10.0.0.1:8786")
    asked: list[Any] = []

    def opened(engine: str, workers: int, *, address: str = "", files: Any = (), domain: str = "") -> Any:
        del workers
        asked.append((engine, address, [file.name for file in files], domain))
        raise ClusterError("enough")

    monkeypatch.setattr("outofcore.conversion.estimate.open_executor", opened)
    section = LinesSection(raw=str(tmp_path))
    with pytest.raises(ClusterError):
        plan_domain(Lines(), section, tmp_path / "store.zarr", load_machine())
    assert asked == [("dask", "tcp://10.0.0.1:8786", ["a.txt"], "lines")]


@pytest.mark.parametrize(
    ("domain", "name", "content", "settings", "told"),
    [
        ("text", "a.txt", "word " * 2000, {"mode": "stream"}, r"text\.mode: stream: .* got 4; use one, or mode store"),
        ("go", "a.sgf", GAME, {"train": {"task": "style"}}, "compares all samples of a batch: .* got 4; run it on one"),
    ],
)
def test_ranks_that_training_refuses_are_refused(
    tmp_path: Path, domain: str, name: str, content: str, settings: dict[str, Any], told: str
) -> None:
    (tmp_path / name).write_text(content)
    if domain == "text":
        outofcore.train_tokenizer(tmp_path, tmp_path / "tokenizer.json", vocab_size=300)
        settings = {**settings, "tokenizer": {"path": str(tmp_path / "tokenizer.json")}}
    section = get_domain(domain).section.model_validate({"raw": str(tmp_path / name), **settings})
    with pytest.raises(ParamsError, match=told):
        plan_domain(get_domain(domain), section, tmp_path / "store.zarr", load_machine(), ranks=4)
