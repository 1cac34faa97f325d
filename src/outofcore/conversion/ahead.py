"""Keep a conversion within the memory budget: by what its sample took, it has fewer units in flight or is refused."""

from __future__ import annotations

from outofcore.conversion.estimate import AHEAD, Estimate
from outofcore.errors import BudgetError
from outofcore.settings.sizes import format_bytes

# Of what only the conversion itself holds: the oracle, audited records, shards that are being finished.
BEYOND_SAMPLE = 128 << 20
# Of a key that is remembered to find duplicates, while runs of keys are merged.
SEEN_KEY_BYTES = 48
# By which the peak of one sample differs from run to run; a figure that is named has to suffice in the next.
_VARIES = 32 << 20
_ROUNDED = 10**7


def units_ahead(name: str, forecast: Estimate, sample_peak: int, keys: int, budget: int, *, refuse: bool) -> int:
    """How many units may be in flight.

    ``sample_peak`` is the most bytes that the process and its workers held while the sample was converted, with
    :data:`~outofcore.conversion.estimate.AHEAD` units in flight; ``keys`` is how many will be remembered. Raises
    BudgetError, if it may ``refuse``, where fewer than those do not fit.
    """
    least = sample_peak + BEYOND_SAMPLE + SEEN_KEY_BYTES * keys
    if refuse and least > budget:
        figure = -(-(least + _VARIES) // _ROUNDED) * _ROUNDED
        message = (
            f"{name}: memory is {format_bytes(budget)}, and this conversion takes up to {format_bytes(figure)} "
            f"({format_bytes(sample_peak)} for a sample of it); set memory in machine.yaml, or OUTOFCORE_MEMORY, to "
            f"{figure // 10**6}MB, or use fewer workers"
        )
        raise BudgetError(message)
    return max(1, AHEAD + (budget - least) // max(1, forecast.unit_bytes))
