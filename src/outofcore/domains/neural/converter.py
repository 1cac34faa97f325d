"""A unit to rows and sequences: stretches of bins that count, and a reject for every stretch that does not."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.neural.bins import REASONS, BinReader, Slice
from outofcore.domains.neural.oracle import disagreements
from outofcore.domains.neural.params import NeuralSection
from outofcore.domains.neural.sessions import Session, opened
from outofcore.domains.neural.source import Piece
from outofcore.domains.neural.streams import find_streams
from outofcore.domains.neural.survey import Survey
from outofcore.domains.neural.transforms import history
from outofcore.domains.neural.trials import UNLABELLED
from outofcore.raw.unit import KEY_BYTES, Reject, Unit, UnitResult

Ints = npt.NDArray[np.int64]

NO_PREDECESSOR = len(REASONS)
"""State of a bin that a transform would compare with a bin that is none."""
OUTSIDE = len(REASONS) + 1
"""State of a bin between trials."""
AUDITED_BINS = 4
"""Bins of a sequence that the oracle reads."""


@dataclass(frozen=True)
class Converter:
    """Turns a unit into rows; picklable.

    Attributes
    ----------
    section
        The neural section of params.yaml.
    """

    section: NeuralSection

    def __call__(self, unit: Unit) -> UnitResult:
        """Read, align and check the bins of a unit."""
        detail = unit.detail
        rejects: tuple[Reject, ...] = tuple(detail.get("rejects", ()))
        counts: dict[str, int] = dict(detail.get("counts", {}))
        if "piece" not in detail:
            return UnitResult(
                found=len(rejects),
                rows={},
                sequences={},
                keys=np.empty((0, KEY_BYTES), np.uint8),
                rejects=rejects,
                counts=counts,
            )
        session: Session = detail["session"]
        known: Survey = detail["survey"]
        piece: Piece = detail["piece"]
        held = detail.get("slice")
        if held is None:
            with opened(session) as recording:
                reader = BinReader(
                    find_streams(recording, self.section.source, known.labels), known, self.section.source
                )
                held = reader.read(piece.start - piece.before, piece.stop + piece.after, detail["ranges"])
        return _Runs(piece, held, known, history(self.section.source.transforms)).result(
            unit, session, self.section, rejects, counts
        )


class _Runs:
    """Stretches of bins of one trial that all count, or all fail for one reason."""

    def __init__(self, piece: Piece, held: Slice, known: Survey, before: int) -> None:
        self._piece, self._held, self._known = piece, held, known
        bins = np.arange(held.first, held.first + len(held.reason))
        owner = np.searchsorted(piece.trials[:, 0], bins, side="right") - 1
        owner[bins >= piece.trials[owner, 1]] = -1
        state = held.reason.astype(np.int64)
        # A transform that looks back needs as many bins of the same trial that count themselves.
        fine = (state == 0) & (owner >= 0)
        for step in range(1, before + 1):
            behind = np.zeros(len(fine), bool)
            behind[step:] = fine[:-step] & (owner[step:] == owner[:-step])
            state[(state == 0) & ~behind] = NO_PREDECESSOR
        state[owner < 0] = OUTSIDE
        change = (np.diff(owner) != 0) | (np.diff(state) != 0)
        low, high = piece.start - held.first, piece.stop - held.first
        edges = np.flatnonzero(change) + 1
        self.starts = np.concatenate([[low], edges[(edges > low) & (edges < high)]])
        self.stops = np.append(self.starts[1:], high)
        self.owner, self.state = owner[self.starts], state[self.starts]
        self.continued = bool(low > 0 and not change[low - 1])
        self.unfinished = bool(high < len(state) and not change[high - 1])

    def result(
        self, unit: Unit, session: Session, section: NeuralSection, rejects: tuple[Reject, ...], counts: dict[str, int]
    ) -> UnitResult:
        """Rows and sequences of the stretches that count, rejects for the others."""
        piece, held = self._piece, self._held
        good = self.state == 0
        wrong = (self.state > 0) & (self.state < NO_PREDECESSOR)
        told = wrong.copy()
        told[0] &= not self.continued
        found_rejects = [
            Reject(
                reason=REASONS[state],
                offset=held.first + start,
                detail=f"{_named(label)}, from bin {held.first + start} of the session on",
            )
            for start, state, label in zip(
                self.starts[told].tolist(),
                self.state[told].tolist(),
                piece.trials[self.owner[told], 2].tolist(),
                strict=True,
            )
        ]
        lengths = (self.stops - self.starts)[good]
        owner = piece.trials[self.owner[good]]
        first = held.first + self.starts[good]
        keys = trial_keys(self._known.fingerprint, owner[:, 0], owner[:, 3])
        keep = np.repeat(good, self.stops - self.starts)
        rows = self._rows(keep)
        lost = self.stops - self.starts
        counts = {
            **counts,
            "bins_stored": int(lengths.sum()),
            "bins_rejected": int(lost[wrong].sum()),
            "bins_without_predecessor": int(lost[self.state == NO_PREDECESSOR].sum()),
            "responses_masked": int((rows["dfs"] == 0).sum()),
        }
        if "spikes" in unit.detail["ranges"]:
            counts["spikes_stored"] = int(rows["robs"].sum(dtype=np.float64))
        continues = bool(good[0] and self.continued)
        audited, differences = self._audit(session, section, keys, first, lengths, rows, skip=continues)
        rejects = (*rejects, *found_rejects)
        return UnitResult(
            found=len(lengths) + len(rejects) - continues,
            rows=rows,
            sequences={
                "length": lengths,
                "trial": owner[:, 2],
                "repeat": owner[:, 3],
                "source": np.full(len(lengths), session.source, np.int32),
                "offset": first,
            },
            keys=keys,
            rejects=rejects,
            part=session.name,
            continues=continues,
            unfinished=bool(good[-1] and self.unfinished),
            counts=counts,
            audited=audited,
            differences=differences,
        )

    def _rows(self, keep: npt.NDArray[np.bool_]) -> dict[str, npt.NDArray[Any]]:
        held, piece = self._held, self._piece
        low, high = piece.start - held.first, piece.stop - held.first
        rows: dict[str, npt.NDArray[Any]] = {"stim": held.stim, "robs": held.robs, "dfs": held.dfs}
        if held.behavior is not None:
            rows["behavior"] = held.behavior
        rows = {name: field[low:high] for name, field in rows.items()}
        bins = np.arange(piece.start, piece.stop)
        trial = piece.trials[np.searchsorted(piece.trials[:, 0], bins, side="right") - 1]
        condition = np.where(trial[:, 4] >= 0, trial[:, 4] + bins - trial[:, 0], -1)
        rows["condition"] = condition.astype(np.int32)
        return rows if keep.all() else {name: field[keep] for name, field in rows.items()}

    def _audit(
        self,
        session: Session,
        section: NeuralSection,
        keys: npt.NDArray[np.uint8],
        first: Ints,
        lengths: Ints,
        rows: dict[str, npt.NDArray[Any]],
        *,
        skip: bool,
    ) -> tuple[int, tuple[str, ...]]:
        """Have the oracle read a few bins of one sequence in so many."""
        ends = np.cumsum(lengths)
        chosen: list[tuple[int, int]] = []
        audited = 0
        for number in range(int(skip), len(lengths)):
            draw = hashlib.blake2b(keys[number].tobytes() + int(first[number]).to_bytes(8, "little"), digest_size=16)
            value = int.from_bytes(draw.digest())
            if value % section.audit.one_in:
                continue
            audited += 1
            start = int(ends[number] - lengths[number])
            for place in range(AUDITED_BINS):
                step = (value >> (64 + 16 * place)) % int(lengths[number])
                chosen.append((int(first[number]) + step, start + step))
        if not chosen:
            return 0, ()
        return audited, tuple(disagreements(session, section.source, sorted(set(chosen)), rows))


def trial_keys(fingerprint: bytes, start: Ints, repeat: Ints) -> npt.NDArray[np.uint8]:
    """Key of each sequence: of what its trial repeats, or of the trial itself.

    All stretches of a trial, and all repeats of what is marked as one, in whatever session, have one key and so stand
    in one split. A trial is known by its session's content and its first bin.

    Returns
    -------
    Shape (sequences, 16) uint8.
    """
    keys = np.empty((len(start), KEY_BYTES), np.uint8)
    for number, (first, shown) in enumerate(zip(start.tolist(), repeat.tolist(), strict=True)):
        content = b"repeat" + shown.to_bytes(8, "little") if shown >= 0 else fingerprint + first.to_bytes(8, "little")
        keys[number] = np.frombuffer(hashlib.blake2b(content, digest_size=KEY_BYTES).digest(), np.uint8)
    return keys


def _named(label: int) -> str:
    return "bins without a label" if label == UNLABELLED else f"trial {label}"
