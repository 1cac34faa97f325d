"""The tensors that training sees, for a program of one's own."""

from __future__ import annotations

from pathlib import Path

from outofcore.domains.reading import Reading
from outofcore.domains.registry import get_domain
from outofcore.params import load_params
from outofcore.store.reader import Store


def reading(store: Store, params: str | Path = "params.yaml") -> Reading:
    """What turns stored rows into the tensors that ``params.yaml`` asks for: planes, shifted tokens, lag windows.

    Parameters
    ----------
    store
        The store that is read.
    params
        The file whose section of the store's domain holds ``tensors``.

    Returns
    -------
    Reading
        For ``loader(store, ..., tensors=reading(store))``. Readings of text and recordings are of windows, which the
        loader is told beside: ``window={"length": 65, "stride": 64, "mode": "pack"}``.

    Raises
    ------
    ParamsError
        If there is no such file or section, or a key of it is wrong.
    """
    domain = get_domain(store.domain)
    return domain.reading(store.attributes, load_params(params).section(domain.name))
