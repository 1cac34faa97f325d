"""Arrays of other software whose Blosc chunks are checked before they are decoded.

The decompressor of numcodecs trusts the header: of a chunk that was cut short it reads beyond the end, and what lies in
memory there becomes values. zarr-python hands it every chunk unchecked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

import numcodecs.blosc
import zarr
import zarr.abc.codec
import zarr.codecs
import zarr.codecs.numcodecs

from outofcore.store.codecs import check_blosc


def with_whole_chunks(array: zarr.Array[Any]) -> zarr.Array[Any]:
    """The same array; reading a Blosc chunk that was cut short raises DamagedStore."""
    metadata: Any = array.metadata
    if metadata.zarr_format == 2:
        filters = metadata.filters and [*map(_checked, metadata.filters)]
        metadata = dataclasses.replace(metadata, filters=filters, compressor=_checked(metadata.compressor))
    else:
        metadata = dataclasses.replace(metadata, codecs=tuple(_checked_chain(metadata.codecs)))
    return zarr.Array(zarr.AsyncArray(metadata, array.store_path, array.config))


class _CheckedBlosc(numcodecs.blosc.Blosc):  # type: ignore[misc]  # has no types
    """Of Zarr v2."""

    def decode(self, buf: Any, out: Any = None) -> Any:
        check_blosc(memoryview(buf).cast("B"))
        return super().decode(buf, out)


class _BloscCheck(zarr.abc.codec.BytesBytesCodec):
    """Of Zarr v3, between a stored chunk and Blosc."""

    is_fixed_size = True

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        del chunk_spec
        return input_byte_length

    def to_dict(self) -> dict[str, Any]:
        """What other pipelines of zarr-python, which decode by themselves, may leave out."""
        return {"name": "outofcore.blosc_check", "configuration": {}, "must_understand": False}

    async def decode(self, chunks_and_specs: Iterable[tuple[Any, Any]]) -> list[Any]:
        """The chunks as they are."""
        chunks = [chunk for chunk, _ in chunks_and_specs]
        for chunk in chunks:
            if chunk is not None:
                check_blosc(memoryview(chunk.as_numpy_array()))
        return chunks


def _checked(codec: Any) -> Any:
    if not isinstance(codec, numcodecs.blosc.Blosc):
        return codec
    configuration = codec.get_config()
    del configuration["id"]
    return _CheckedBlosc(**configuration)


def _checked_chain(codecs: Iterable[Any]) -> Iterator[Any]:
    for codec in codecs:
        if isinstance(codec, zarr.codecs.ShardingCodec):
            yield dataclasses.replace(codec, codecs=tuple(_checked_chain(codec.codecs)))
        else:
            yield codec
        if isinstance(codec, zarr.codecs.BloscCodec | zarr.codecs.numcodecs.Blosc):
            yield _BloscCheck()
