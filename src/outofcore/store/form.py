"""On-disk form of a field: chunk encoding and metadata."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import zarr
import zarr.codecs
from zarr.abc.store import Store

from outofcore.store.codecs import ChunkCodec
from outofcore.store.schema import Field, Layout

# Names of the first dimension by the table that an array belongs to, for xarray and others; rows in all other tables.
_FIRST = {"sequences": "sequence", "sources": "file"}


def write_metadata(store: Store, table: str, field: Field, codec: ChunkCodec, layout: Layout, rows: int) -> None:
    """Write the ``zarr.json`` of a field of a table with so many rows."""
    axes = field.axes or [f"{field.name}_{axis}" for axis in range(1, len(field.shape) + 1)]
    zarr.create_array(
        store=store,
        name=f"{table}/{field.name}",
        shape=(rows, *field.shape),
        dtype=str if field.dtype == "string" else np.dtype(field.dtype).newbyteorder("<"),
        chunks=(layout.chunk_rows, *field.shape),
        shards={"shape": (layout.shard_rows, *field.shape), "index_location": "start"},  # type: ignore[arg-type]  # zarr 3.1
        compressors=_compressors(codec),
        filters=None,
        fill_value=field.fill if field.dtype != "string" else "",
        chunk_key_encoding={"name": "default", "separator": "."},
        dimension_names=(_FIRST.get(table.rpartition("/")[2], "row"), *axes),
        attributes=dict(sorted({"doc": field.doc, **field.attributes}.items())),
    )


def _compressors(codec: ChunkCodec) -> list[Any]:
    """The codecs after that of the array's bytes, as zarr-python has them."""
    chain: list[Any] = []
    if codec.name == "zstd":
        chain.append(zarr.codecs.ZstdCodec(level=codec.level))
    elif codec.name == "lz4":
        chain.append(zarr.codecs.BloscCodec(cname="lz4", clevel=codec.level, shuffle="noshuffle"))
    return [*chain, zarr.codecs.Crc32cCodec()]


def is_empty(field: Field, chunk: npt.NDArray[Any]) -> bool:
    """Whether a chunk holds only the fill value."""
    if (chunk.size and chunk.flat[0] != field.fill) or not np.all(chunk == field.fill):
        return False
    # -0.0 equals 0.0, but is another value to store.
    return not (chunk.dtype.kind == "f" and field.fill == 0 and np.signbit(chunk).any())


def encode_chunk(field: Field, codec: ChunkCodec, chunk: npt.NDArray[Any]) -> bytes:
    """Bytes of a whole chunk; empty if it holds only the fill value."""
    return b"" if is_empty(field, chunk) else codec.encode(chunk)


def filler(field: Field, rows: int) -> npt.NDArray[Any]:
    """Fill rows, as at the end of the last chunk."""
    return np.full((rows, *field.shape), field.fill, dtype=dtype_of(field))


def dtype_of(field: Field) -> Any:
    """In-memory numpy dtype of a field's rows."""
    return object if field.dtype == "string" else np.dtype(field.dtype)
