"""Stores that are sampled."""

from tests.loading.conftest import make_store

__all__ = ["make_store"]
