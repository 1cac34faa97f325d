"""Names and numbers as a person reads them."""

from __future__ import annotations

import pytest

from outofcore.report.words import baseline_of, figure_lines, figure_name, results, seconds, wait


@pytest.mark.parametrize(("value", "shown"), [(4.41, "4.41 s"), (65.66, "65.7 s"), (720, "12 min"), (12600, "3.5 h")])
def test_times(value: float, shown: str) -> None:
    assert seconds(value) == shown


def test_a_baseline_belongs_to_the_figure_that_it_names() -> None:
    keys = ["top1", "top1_most_frequent", "top1_opening", "top1_opening_most_frequent", "loss_frequencies"]
    assert [baseline_of(key, keys)[0] for key in keys] == [
        "top1",
        "top1",
        "top1_opening",
        "top1_opening",
        "loss_frequencies",
    ]


def test_results_hold_every_figure_once() -> None:
    found = results({"steps": 3, "loss": 1.5, "loss_frequencies": 4.5, "word_frequencies": 2})
    assert [(each.name, each.value, each.baseline) for each in found] == [
        ("Steps", "3", ""),
        ("Loss", "1.5", "4.5"),
        ("Word, frequencies alone", "2", ""),
    ]


def test_what_a_run_has_reached_is_told_beside_what_does_better() -> None:
    figures = {"top1": 0.2, "top1_most_frequent": 0.02, "squared_error": 0.03, "squared_error_mean_response": 0.01}
    assert figure_lines({**figures, "neurons": 4}, compared=True) == [
        "Top 1: 0.2; always the most frequent: 0.02",
        "Squared error: 0.03; always the mean response, which does better: 0.01",
    ]
    ends = {"low": {"top1": 0.125}, "high": {"top1": 0.25}}
    first, *_ = figure_lines({**figures, **ends, "test_digest": "1f"})
    assert first == "Top 1: 0.2 (95 %: 0.125 to 0.25); always the most frequent: 0.02"
    for name in ("loss", "policy_loss", "perplexity", "bits_per_byte"):
        assert not any("better" in line for line in figure_lines({name: 1.0, f"{name}_frequencies": 2.0}))
        assert all("better" in line for line in figure_lines({name: 2.0, f"{name}_frequencies": 1.0}))


@pytest.mark.parametrize(
    ("trained", "share", "shown"),
    [
        (3600, 0.384, "Steps waited for data 38.4 % of the time."),
        (20, 0.25, "Steps waited for data 25.0 % of the time (5 s): in a run this short, mostly for the first batch."),
        (200, 0.384, "Steps waited for data 38.4 % of the time."),
        (12.5, 0.001, "Steps waited for data 0.1 % of the time."),
    ],
)
def test_waits_of_a_short_run_are_those_of_its_start(trained: float, share: float, shown: str) -> None:
    assert wait({"seconds": trained + 2, "training_seconds": trained, "data_wait_share": share}) == shown


def test_keys_become_words() -> None:
    assert figure_name("top1_most_frequent") == "top 1, always the most frequent"
    assert figure_name("bits_per_byte") == "bits per byte"
