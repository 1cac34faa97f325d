"""What a torch ``DataLoader`` around batches must not do: read them in its workers, or make batches of them."""

from __future__ import annotations

import inspect

from torch.utils.data import get_worker_info

from outofcore.errors import ParamsError


def check_consumer(what: str) -> None:
    """Raise ParamsError if the ``__iter__`` that calls this serves a ``DataLoader`` that does either."""
    if get_worker_info() is not None:
        message = f"a {what} reads with threads of its own: use it directly, or DataLoader(..., num_workers=0)"
        raise ParamsError(message)
    # torch tells a dataset nothing of that; its function that calls iter(dataset) has it under this name. The variables
    # of a user's function must not be read: its frame would keep them.
    frame = inspect.currentframe()
    caller = frame and frame.f_back and frame.f_back.f_back
    of_torch = caller and str(caller.f_globals.get("__name__")).startswith("torch.utils.data.")
    if caller and of_torch and caller.f_locals.get("auto_collation") is True:
        message = (
            f"a {what} gives whole batches: expected DataLoader(..., batch_size=None), got one that would make batches "
            f"of batches; the size of a batch is that of the {what}"
        )
        raise ParamsError(message)
