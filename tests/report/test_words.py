"""Names and numbers as a person reads them."""

from __future__ import annotations

from outofcore.report.words import baseline_of, figure_lines, results


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
