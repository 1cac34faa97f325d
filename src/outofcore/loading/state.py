"""Position of a loader in its epoch: a small dict from which any number of ranks can resume."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from outofcore.errors import StateError

VERSION = 1


@dataclass(frozen=True)
class Identity:
    """What a saved state must agree with."""

    store: str  # digest
    split: str
    part: str
    seed: int
    layout: Mapping[str, Any]  # everything else that determines the order

    def state(self, epoch: int, received: int) -> dict[str, Any]:
        """The state after ``received`` samples of an epoch, counted over all ranks."""
        return {
            "version": VERSION,
            "store": self.store,
            "split": self.split,
            "part": self.part,
            "seed": self.seed,
            "layout": dict(self.layout),
            "epoch": epoch,
            "received": received,
        }

    def read(self, state: Mapping[str, Any]) -> tuple[int, int]:
        """Epoch and samples received from a state.

        Raises StateError if it is invalid or belongs to another store, split, seed or layout.
        """
        expected = self.state(0, 0)
        missing = sorted(expected.keys() - state.keys())
        if missing:
            message = f"expected a loader's state, got one without {', '.join(missing)}"
            raise StateError(message)
        for name, own in expected.items():
            if name in ("epoch", "received"):
                continue
            if name == "layout":
                own, other = _differing(own, state[name])
            else:
                other = state[name]
            if own != other:
                message = (
                    f"the saved state belongs to another {name}: expected {own!r}, the state has {other!r}; "
                    "load it with what it was saved with, or begin without it"
                )
                raise StateError(message)
        return int(state["epoch"]), int(state["received"])


def _differing(own: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The entries in which two layouts differ; lists and tuples of equal items are equal."""
    names = [name for name in sorted({*own, *other}) if _plain(own.get(name)) != _plain(other.get(name))]
    return {name: own.get(name) for name in names}, {name: other.get(name) for name in names}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, list | tuple) else value
