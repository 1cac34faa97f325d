"""Convert a unit to rows and sequences: one sequence per run of usable bins; other runs are reported."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.conversion.splits import SPLITS, assign
from outofcore.domains.neural.bins import REASONS, WAYS_OUT, BinReader, Slice
from outofcore.domains.neural.oracle import disagreements
from outofcore.domains.neural.params import NeuralSection
from outofcore.domains.neural.runs import NO_PREDECESSOR, Runs, find_runs
from outofcore.domains.neural.sessions import Session, opened
from outofcore.domains.neural.source import Piece
from outofcore.domains.neural.splits import trial_keys
from outofcore.domains.neural.streams import find_streams
from outofcore.domains.neural.survey import Survey
from outofcore.domains.neural.transforms import history
from outofcore.domains.neural.trials import UNLABELLED
from outofcore.raw.unit import KEY_BYTES, Reject, Unit, UnitResult

Ints = npt.NDArray[np.int64]
Rows = dict[str, npt.NDArray[Any]]

AUDITED_BINS = 4
"""Bins of a sequence that the oracle reads."""

SILENT = ": no response counts, the frames are stored"


@dataclass(frozen=True)
class Converter:
    """Turns a unit into rows; picklable."""

    section: NeuralSection

    def __call__(self, unit: Unit) -> UnitResult:
        """Read, align and check the bins of a unit."""
        told: tuple[Reject, ...] = tuple(unit.detail.get("rejects", ()))
        counts: dict[str, int] = dict(unit.detail.get("counts", {}))
        if "piece" not in unit.detail:
            keys = np.empty((0, KEY_BYTES), np.uint8)
            return UnitResult(found=len(told), rows={}, sequences={}, keys=keys, rejects=told, counts=counts)
        session: Session = unit.detail["session"]
        survey: Survey = unit.detail["survey"]
        piece: Piece = unit.detail["piece"]
        held = unit.detail.get("slice") or self._read(unit, session, survey, piece)
        runs, listed = find_runs(piece, held, history(self.section.source.transforms))
        rejects = (*told, *_rejects(piece, runs, listed))
        rows = _rows(piece, held, runs)
        trial = piece.trials[runs.trial[runs.good]]
        first, lengths = runs.start[runs.good], runs.length[runs.good]
        keys = trial_keys(survey.fingerprint, trial[:, 0], trial[:, 3])
        continues = bool(runs.good[0] and runs.continued)
        counts |= _counts(runs, listed, rows)
        if "spikes" in unit.detail["ranges"]:
            counts["spikes_stored"] = int(rows["robs"].sum(dtype=np.float64))
        one_in = self.section.audit.one_in
        audited, chosen = choose_bins(keys[continues:], first[continues:], lengths[continues:], one_in)
        differences = self._differences(session, piece, runs, rows, chosen)
        return UnitResult(
            found=len(keys) + len(rejects) - continues,
            rows=rows,
            sequences={
                "length": lengths,
                "trial": trial[:, 2],
                "repeat": trial[:, 3],
                "source": np.full(len(keys), session.source, np.int32),
                "offset": first,
            },
            keys=keys,
            split=self._split(keys, unit.detail.get("moved", {})),
            rejects=rejects,
            part=session.name,
            continues=continues,
            unfinished=bool(runs.good[-1] and runs.unfinished),
            counts=counts,
            audited=audited if differences is not None else 0,
            differences=tuple(differences or ()),
        )

    def _split(self, keys: npt.NDArray[np.uint8], moved: Mapping[bytes, str]) -> npt.NDArray[Any] | None:
        """Splits of the sequences if any is reassigned from its hash, else None."""
        if not moved:
            return None
        by_hash = (SPLITS[place] for place in assign(keys, self.section.splits).tolist())
        return np.array([moved.get(key.tobytes(), name) for key, name in zip(keys, by_hash, strict=True)])

    def _read(self, unit: Unit, session: Session, survey: Survey, piece: Piece) -> Slice:
        with opened(session) as recording:
            streams = find_streams(recording, self.section.source, survey.labels)
            reader = BinReader(streams, survey, self.section.source)
            return reader.read(piece.start - piece.before, piece.stop + piece.after, unit.detail["ranges"])

    def _differences(
        self, session: Session, piece: Piece, runs: Runs, rows: Rows, chosen: list[int]
    ) -> list[str] | None:
        if not chosen:
            return []
        row_of = np.cumsum(_kept(runs)) - 1
        bins = [(number, int(row_of[number - piece.start])) for number in chosen]
        return disagreements(session, self.section.source, bins, rows)


def _kept(runs: Runs) -> npt.NDArray[np.bool_]:
    """Which bins of the piece are stored."""
    return np.repeat(runs.good, runs.length)


def _rows(piece: Piece, held: Slice, runs: Runs) -> Rows:
    bins = np.arange(piece.start, piece.stop)
    trial = piece.trials[np.searchsorted(piece.trials[:, 0], bins, side="right") - 1]
    condition = np.where(trial[:, 4] >= 0, trial[:, 4] + bins - trial[:, 0], -1)
    fields: Rows = {"stim": held.stim, "robs": held.robs, "dfs": held.dfs}
    if held.behavior is not None:
        fields["behavior"] = held.behavior
    rows = {name: field[piece.start - held.first : piece.stop - held.first] for name, field in fields.items()}
    rows["condition"] = condition.astype(np.int32)
    kept = _kept(runs)
    return rows if kept.all() else {name: field[kept] for name, field in rows.items()}


def _rejects(piece: Piece, runs: Runs, listed: Runs) -> list[Reject]:
    """One reject per unusable run; a run continued from the previous piece was reported there."""
    told = listed.wrong
    told[0] &= not listed.continued
    start, state = listed.start[told], listed.state[told]
    labels = piece.trials[listed.trial[told], 2].tolist()
    kept = _kept(runs)[start - piece.start].tolist()
    return [
        Reject(
            reason=REASONS[why],
            offset=first,
            detail=f"{_named(label)}, from bin {first} of the session on{SILENT if silent else ''}"
            f"{WAYS_OUT.get(REASONS[why], '')}",
        )
        for first, why, label, silent in zip(start.tolist(), state.tolist(), labels, kept, strict=True)
    ]


def _named(label: int) -> str:
    return "bins without a label" if label == UNLABELLED else f"trial {label}"


def _counts(runs: Runs, listed: Runs, rows: Rows) -> dict[str, int]:
    rejected = int(runs.length[runs.wrong].sum())
    return {
        "bins_stored": int(runs.length[runs.good].sum()),
        "bins_without_response": int(listed.length[listed.wrong].sum()) - rejected,
        "bins_rejected": rejected,
        "bins_without_predecessor": int(runs.length[runs.state == NO_PREDECESSOR].sum()),
        "responses_masked": int((rows["dfs"] == 0).sum()),
    }


def choose_bins(keys: npt.NDArray[np.uint8], first: Ints, lengths: Ints, one_in: int) -> tuple[int, list[int]]:
    """Choose sequences to audit, one in ``one_in`` by key, and a few ascending bins of each.

    Returns the number of chosen sequences and the bins.
    """
    chosen: set[int] = set()
    audited = 0
    for key, start, length in zip(keys, first.tolist(), lengths.tolist(), strict=True):
        draw = int.from_bytes(hashlib.blake2b(key.tobytes() + start.to_bytes(8, "little"), digest_size=16).digest())
        if draw % one_in == 0:
            audited += 1
            chosen |= {start + (draw >> (64 + 16 * place)) % length for place in range(AUDITED_BINS)}
    return audited, sorted(chosen)
