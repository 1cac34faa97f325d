"""What of a domain is made again in projects: count a version up where equal input and settings give something else.

``tests/conversion/test_golden.py`` notices it.
"""

from __future__ import annotations

from typing import NamedTuple


class Versions(NamedTuple):
    """Of a domain."""

    bytes: int = 1  # of stores: other bytes, or other records
    training: int = 1  # of models: other weights, or another order of samples


VERSIONS = {
    "chess": Versions(bytes=6, training=1),
    "go": Versions(bytes=6, training=1),
    "text": Versions(bytes=6, training=1),
    "neural": Versions(bytes=5, training=1),
}
