"""Comparisons run beside the conversion, and none is forgotten."""

from __future__ import annotations

from concurrent.futures import Future
from functools import partial

import pytest

from outofcore.conversion.audit import AT_ONCE, Auditors
from outofcore.errors import AuditError


def compare(number: int, unlucky: int) -> str | None:
    return f"record {number} is 12, by the oracle 13" if number == unlucky else None


@pytest.mark.parametrize("unlucky", [0, AT_ONCE - 1, AT_ONCE, 3 * AT_ONCE - 1])
def test_a_difference_is_told_wherever_it_is(unlucky: int) -> None:
    audits = tuple(partial(compare, number, unlucky) for number in range(3 * AT_ONCE))
    with Auditors() as auditors, pytest.raises(AuditError, match=f"nothing was sealed: record {unlucky} is 12"):  # noqa: PT012
        for audit in audits:
            auditors.add((audit,))
        auditors.finish()


def test_a_comparison_that_was_waited_for_when_ctrl_c_came_still_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    with Auditors() as auditors:
        for number in range(AT_ONCE + 1):
            auditors.add((partial(compare, number, AT_ONCE),))
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):  # noqa: PT012
            patch.setattr(Future, "result", interrupted)
            auditors.finish()
        assert not auditors.settled()


def interrupted(_: Future[str | None]) -> None:
    raise KeyboardInterrupt


def test_agreement_is_silent() -> None:
    with Auditors() as auditors:
        auditors.add(tuple(partial(compare, number, -1) for number in range(2 * AT_ONCE)))
        auditors.finish()
