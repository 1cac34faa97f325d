"""Every error that outofcore raises on purpose.

    OutOfCoreError
    ├── ParamsError        a key in params.yaml or a machine setting is unknown, missing or out of range
    ├── RawInputError      the raw input is missing, empty or of no readable kind
    ├── StoreError         a store is absent, not sealed, of another format, or cannot be written
    │   └── DamagedStore   bytes of a sealed store are not the bytes that were sealed
    ├── SpaceError         a filesystem has too little room for what is about to be written
    ├── BudgetError        a memory budget cannot hold what the order of samples asks for
    ├── ClusterError       the workers of a cluster are gone, or are not like the driver
    ├── StateError         a saved loader state belongs to another store, seed or layout
    └── AuditError         an engine and its oracle disagree about a record

All of them are a user's business: the command line prints the message, one line, without a traceback.
Anything else that escapes is a defect of outofcore.
"""

from __future__ import annotations


class OutOfCoreError(Exception):
    """Base of all errors that a user can cause or cure."""


class ParamsError(OutOfCoreError):
    """A parameter or a machine setting is unknown, missing or out of range."""


class RawInputError(OutOfCoreError):
    """The raw input is missing, empty, or of no kind that the domain reads."""


class StoreError(OutOfCoreError):
    """A store is absent, not sealed, written in another format, or cannot be written."""


class DamagedStore(StoreError):  # noqa: N818 - the name describes the store
    """Bytes of a sealed store are not the bytes that were sealed."""


class SpaceError(OutOfCoreError):
    """A filesystem has too little room for what is about to be written."""


class BudgetError(OutOfCoreError):
    """A memory budget cannot hold what a conversion takes, or what the order of samples asks for."""


class ClusterError(OutOfCoreError):
    """The scheduler or the workers of a cluster are gone, have other versions, or do not see the input."""


class StateError(OutOfCoreError):
    """A saved loader state belongs to another store, seed or layout."""


class AuditError(OutOfCoreError):
    """An engine and its oracle disagree about a record."""
