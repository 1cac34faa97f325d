"""A conversion whose store goes to an object storage instead of this machine: ``outofcore convert chess s3://...``."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import Any

from outofcore.convert.estimate import estimate
from outofcore.convert.executors import open_executor
from outofcore.convert.run import Conversion, convert
from outofcore.domains.registry import get_domain
from outofcore.errors import ParamsError
from outofcore.machine import Machine
from outofcore.params import Params
from outofcore.raw.files import find_files
from outofcore.space.forecast import Need, Purpose
from outofcore.space.guard import Guard
from outofcore.store.remote import url_of
from outofcore.store.upload import Upload
from outofcore.streaming import STORES, is_streamed

# Shards of each split that are on this machine at a time: one that grows, those that no checkpoint counts yet.
SHARDS_HERE = 4


def convert_to(name: str, target: str, params: Params, machine: Machine) -> dict[str, Any]:
    """Convert a domain's raw input into a store at an address.

    Work in progress stands in ``data/stores``, or in the machine's ``scratch``: shards that are not whole, and where a
    stopped conversion goes on. Rejects stand beside the store's address, with ``.rejects.csv`` behind its name.

    Parameters
    ----------
    name
        The domain.
    target
        ``s3://bucket/folder/name.zarr``.
    params, machine
        The settings of both kinds.

    Returns
    -------
    The figures of the conversion, as in ``metrics/<domain>/convert.json``.

    Raises
    ------
    ParamsError
        If this is no address, or the domain keeps no store.
    StoreError
        If there is no access to the address.
    SpaceError
        If there is no room for work in progress.
    """
    section, domain, url = params.section(name), get_domain(name), url_of(target)
    if url is None:
        message = f"expected an address such as s3://bucket/stores/{name}.zarr, got {target}; 'dvc repro' takes folders"
        raise ParamsError(message)
    if is_streamed(domain, section):
        message = f"{name}.mode: a store is kept in mode store only; in mode stream there is nothing to put to {url}"
        raise ParamsError(message)
    upload = Upload(url)
    upload.begin()
    files = find_files(section.raw, section.match, domain.suffixes, section=name)
    executor_of = partial(open_executor, machine.engine, machine.workers, address=machine.dask, files=files)
    with executor_of() as executor:
        forecast = estimate(domain, section, files, executor)
    # Conversions to several addresses have work folders of their own.
    place = STORES / f"{name}.{hashlib.sha256(url.encode()).hexdigest()[:8]}.zarr"
    conversion = Conversion(domain, section, files, place, place.with_suffix(".csv"), upload)
    work = conversion.work(machine.scratch)
    held = SHARDS_HERE * section.store.layout().shard_rows * forecast.store_bytes // max(1, forecast.rows)
    guard = Guard(name, machine.disk_margin, machine.disk_reserve)
    guard.require([Need(work, Purpose.WORK, min(held, forecast.store_bytes))])
    with guard.writing(work):
        outcome = convert(
            conversion,
            forecast,
            executor=executor_of(),
            workers=machine.workers,
            watch=lambda _: guard.watch(),
            scratch=machine.scratch,
        )
    folder, _, own = url.rpartition("/")
    Upload(folder).put(f"{own}.rejects.csv", conversion.rejects)
    conversion.rejects.unlink()
    return outcome.figures
