"""Archives as streams of their files, each read or with the reason why not; nothing is written to disk.

Names in archives are labels: ``../x`` and ``/x`` are never followed. Sizes in headers are not trusted: nothing is
allocated by them, and a file ends where its bytes do.
"""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from outofcore.raw.damage import ERRORS, DamagedInput, as_damage
from outofcore.raw.streams import Buffered, Checked

_MOST_METADATA = 1 << 20  # bytes of a tar header's long name or further keys, which are read whole
_METADATA = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)
_KINDS = {tarfile.SYMTYPE: "a symbolic link", tarfile.LNKTYPE: "a hard link", tarfile.GNUTYPE_SPARSE: "a sparse file"}


@dataclass(frozen=True)
class Entry:
    """A file in an archive."""

    name: str  # as in the archive; empty if unknown
    content: BinaryIO | DamagedInput  # to be read before requesting the next entry; or why that is impossible


class _Header(tarfile.TarInfo):
    """A header that is validated first, and that reports to the archive how its list ended."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Header:
        """Read a block."""
        header = super().frombuf(buf, encoding, errors)
        if header.size < 0 or (header.type in _METADATA and header.size > _MOST_METADATA):
            raise tarfile.HeaderError(f"a header with an absurd size of {header.size} bytes")
        return header

    @classmethod
    def fromtarfile(cls, tarfile: Any) -> _Header:  # the parameter's name is that of the class above
        """Read the next header."""
        try:
            return super().fromtarfile(tarfile)
        except Exception as error:
            tarfile.ended_by = error
            raise


class _Tar(tarfile.TarFile):
    tarinfo = _Header
    ended_by: Exception | None = None
    """Result of the search for another header: the end mark of an archive, or something else."""


def tar_entries(source: BinaryIO, counts: Callable[[str], bool]) -> Iterator[Entry]:
    """The files of a decompressed tar archive whose names count, in archive order."""
    try:
        archive = _Tar.open(fileobj=source, mode="r|", errors="surrogateescape")
    except ERRORS as error:
        yield broken(error, 0)
        return
    with archive:
        while True:
            archive.members.clear()  # type: ignore[attr-defined] # typeshed lacks it; else all headers are kept
            place = archive.offset
            try:
                header = archive.next()
            except ERRORS as error:
                yield broken(error, place)
                return
            if header is None:
                break
            if header.isdir() or not counts(header.name):
                continue
            if not header.isreg() or header.issparse():
                kind = _KINDS.get(header.type, "a device")
                yield Entry(header.name, DamagedInput(f"{kind}, not a file with bytes of its own", "not_a_file"))
                continue
            content = Checked(cast("Any", archive.extractfile(header)))
            yield Entry(header.name, Buffered(content))
            if content.problem is not None:  # raised for the reader of the content
                return
        if type(archive.ended_by) is not tarfile.EOFHeaderError:  # type: ignore[attr-defined] # typeshed lacks it
            why = archive.ended_by or "there is nothing"
            yield broken(DamagedInput(f"expected a header or the mark at the end, {why}"), archive.offset)


def zip_entries(source: BinaryIO, counts: Callable[[str], bool]) -> Iterator[Entry]:
    """The files of a zip archive whose names count, in directory order; see :func:`tar_entries`."""
    try:
        archive = zipfile.ZipFile(source)
    except ERRORS as error:
        yield broken(error, 0)
        return
    with archive:
        for header in archive.infolist():
            if header.is_dir() or not counts(header.filename):
                continue
            try:
                stream = archive.open(header)
            except ERRORS as error:
                yield Entry(header.filename, as_damage(error))
                continue
            with stream:
                yield Entry(header.filename, cast("BinaryIO", stream))


def broken(error: Exception, place: int) -> Entry:
    """The unreadable rest of an archive."""
    problem = as_damage(error)
    where = f"at byte {place} of the archive" if place else "this is no archive, or it is damaged where it begins"
    return Entry("", DamagedInput(f"{where}: {problem}", problem.reason))
