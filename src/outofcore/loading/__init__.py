"""From a store to batches: order, windows, residencies, memory, resume."""

from outofcore.loading.build import loader
from outofcore.loading.loader import Loader, Stats
from outofcore.loading.windows import Window

__all__ = ["Loader", "Stats", "Window", "loader"]
