"""A plan looks at the input where the conversion will."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import outofcore
from outofcore.domains.registry import get_domain
from outofcore.errors import ClusterError, ParamsError
from outofcore.plan import DomainPlan, plan_domain, plan_run
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


@pytest.mark.parametrize("players", [2, 3, 4])
def test_players_of_a_batch_that_are_not_there_are_refused(tmp_path: Path, players: int) -> None:
    for place, owner in enumerate("abc"):
        games = []
        for n in range(40 * place, 40 * place + 40):
            last = f";B[{chr(97 + n % 19)}{chr(102 + n // 19)}])"
            games.append(GAME.replace("PB[a]PW[b]", f"PB[{owner}]PW[guest{n}]").replace("])", "]" + last))
        (tmp_path / f"{owner}.sgf").write_text("\n".join(games))
    train = {"task": "style", "min_games": 5, "players_per_batch": players}
    given = {"raw": str(tmp_path), "splits": {"val": 0.3}, "train": train}
    planned = planned_here("go", given, tmp_path)
    told = "go.train.players_per_batch: expected at most 3, the players in the train split with games long enough"
    assert planned.estimate.refused.partition(", got")[0] == (told if players == 4 else "")
    assert plan_run([planned], load_machine()).runs == (players < 4)


@pytest.mark.parametrize("separator", [None, "\n\n"])
def test_a_text_without_documents_to_validate_on_is_refused(tmp_path: Path, separator: str | None) -> None:
    (tmp_path / "a.txt").write_text("\n\n".join(f"document {number} " * 50 for number in range(60)))
    outofcore.train_tokenizer(tmp_path / "a.txt", tmp_path / "tokenizer.json", vocab_size=300)
    given = {"raw": str(tmp_path / "a.txt"), "source": {"separator": separator}, "splits": {"val": 0.2}}
    given["tokenizer"] = {"path": str(tmp_path / "tokenizer.json")}
    planned = planned_here("text", given, tmp_path)
    told = "text: training needs a document in the val split, which has none: convert more, divide one by text.source."
    assert planned.estimate.refused.startswith(told) == (separator is None)
    assert plan_run([planned], load_machine()).runs == (separator is not None)
    # As the training of what is converted will be.
    outofcore.convert("text", tmp_path / "a.txt", tmp_path / "a.zarr", **{key: given[key] for key in list(given)[1:]})
    store = outofcore.open_store(tmp_path / "a.zarr")
    assert bool(len(store.sequences("val"))) == (separator is not None)
    if separator is None:
        with pytest.raises(ParamsError, match="training needs a document in the val split"):
            get_domain("text").check_trainable(None, store)
    else:
        get_domain("text").check_trainable(None, store)


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
