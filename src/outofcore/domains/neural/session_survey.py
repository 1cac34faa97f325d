"""What is known of a session before any frame is read: the result of the survey, from which units are cut."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from outofcore.domains.neural.clocks import BinClock
from outofcore.domains.neural.spikes import SpikeOwners
from outofcore.domains.neural.trials import Trials
from outofcore.domains.neural.unit_table import Units
from outofcore.ndarrays import Bytes, Ints
from outofcore.raw.unit import Reject


@dataclass(frozen=True)
class ShownPictures:
    """Pairs of a trial and a picture that it shows."""

    trial: Ints  # (pairs,)
    content: Bytes  # (pairs, 16) digest of the picture as stored


@dataclass(frozen=True)
class SessionSurvey:
    """A session before conversion."""

    bins: int
    clock: BinClock | None  # None if a bin is a frame
    complete: int  # bins that every array has, if a bin is a frame; else ``bins``
    frame_shape: tuple[int, ...]  # as stored
    neurons: int
    covariates: Mapping[str, int]  # number of columns, by name
    trials: Trials
    rejects: tuple[Reject, ...]  # trials without bins, and entries without times
    counts: Mapping[str, int]  # metrics known so far
    longest: Mapping[str, int]  # nanoseconds for which an entry counts, by stream: shown, samples, behavior
    fingerprint: bytes  # equal for sessions of equal content
    neuron_digests: frozenset[bytes]  # of the responses of each neuron that vary
    labels: SpikeOwners | None  # if one vector holds the spikes of all neurons
    units: Units | None  # that were chosen
    pictures: ShownPictures | None = None  # which trials show, if the stimulus holds each once and no repeats are named
    starts_at: int | None = None  # lowest number of a picture in names.frame
    unread: tuple[str, ...] = ()  # arrays that no setting names

    def slim(self) -> SessionSurvey:
        """A copy without the list of trials, small enough to send with every unit."""
        return replace(
            self,
            trials=self.trials[:0],
            rejects=(),
            counts={},
            units=None,
            pictures=None,
            unread=(),
            neuron_digests=frozenset(),
        )
