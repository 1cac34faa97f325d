"""Optional interface of a domain whose trained model can be tried on raw files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from outofcore.domains.domain import Section

if TYPE_CHECKING:
    from torch import Tensor

    from outofcore.domains.task import Batch
    from outofcore.store.reader import Store

SPLIT = "train"
"""The split that holds all rows of the store that a raw input is converted into."""

Row = dict[str, Any]
"""A prediction by name: numbers, texts, or a mapping of texts to numbers."""


class Predictor(Protocol):
    """The functions of a domain's module ``predict``.

    A domain that continues its input instead of converting it, such as text, has ``answer(task, raw, section,
    options)`` in place of ``unfiltered`` and ``rows``; it returns an iterable of rows.
    """

    Options: type[Section]
    """What a user may choose for each call, by name."""

    def predict(self, task: Any, batch: Batch) -> Mapping[str, Tensor]:
        """What the model expects of a batch of the loader, under the keys of what it predicts."""
        ...

    def unfiltered(self, section: Any) -> Any:
        """The section of a conversion that keeps every record that the model can read."""
        ...

    def rows(
        self, task: Any, store: Store, part: str, predicted: Iterable[Mapping[str, Tensor]], options: Any
    ) -> Iterator[Row]:
        """Readable predictions for a part of a converted input.

        ``predicted`` holds what :meth:`predict` returns, on the CPU, for consecutive batches of all samples of
        :data:`SPLIT`, in the order of the store.
        """
        ...
