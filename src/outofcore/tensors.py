"""From the rows of a store to the tensors that a model needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from outofcore.domains.reading import Reading
from outofcore.domains.registry import DOMAINS, get_domain
from outofcore.errors import ParamsError
from outofcore.loading.arguments import opened
from outofcore.params import Params, load_params
from outofcore.store.reader import Store


def reading(store: Store | str | Path, params: str | Path | None = None, **settings: Any) -> Reading:
    """What turns the rows of a store into tensors: planes, shifted tokens, lag windows.

    A loader without ``tensors`` uses ``reading(store)``. Call it yourself to change settings::

        loader(store, "train", 64, tensors=reading(store, lags=32, dtype="bfloat16"))

    Parameters
    ----------
    store
        A store, or its folder or address.
    params
        A params file whose section of the store's domain holds the settings; None for the defaults of the domain.
    **settings
        Settings under ``tensors`` of the domain, by name; they take precedence over those of ``params``.

    Returns
    -------
    Reading
        For ``loader(store, ..., tensors=...)`` and ``ZarrDataset``. It also says which window of rows a sample needs.

    Raises
    ------
    ParamsError
        If the store's domain has no ready tensors, a setting is unknown or out of range, or there is no such file.
    """
    source = opened(store)
    if source.domain not in DOMAINS:
        message = (
            f"{source.root}: tensors are ready-made for {', '.join(DOMAINS)}, this is a store of "
            f"{source.domain!r}; give what turns its rows into tensors, or read the stored fields"
        )
        raise ParamsError(message)
    domain = get_domain(source.domain)
    if params is None:
        stored = {"raw": ".", **source.attributes.get("params", {})}
        required = [name for name, key in domain.section.model_fields.items() if key.is_required()]
        content: dict[str, Any] = {name: stored[name] for name in required if name in stored} | {"tensors": settings}
        section = Params({domain.name: content}, Path("reading()")).section(domain.name)
    else:
        given = load_params(params)
        section = given.section(domain.name)
        if settings:
            content = given.content(domain.name)
            content["tensors"] = {**content.get("tensors", {}), **settings}
            section = Params({domain.name: content}, Path("reading()")).section(domain.name)
    return domain.reading(source.attributes, section)
