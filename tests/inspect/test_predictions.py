"""Predictions as they are printed."""

from __future__ import annotations

import pytest

from outofcore.inspect import predictions


def test_long_predictions_say_how_far_they_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = iter(range(0, 1000, 11))
    monkeypatch.setattr(predictions.time, "monotonic", lambda: next(seconds))
    rows = [{"ply": ply} for ply in range(7)]
    assert list(predictions.counted(rows)) == rows
    assert capsys.readouterr().err == "3 predictions so far\n6 predictions so far\n"
