"""Owns the names of array types that many modules use; a type that one module uses is named there."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Doubles = npt.NDArray[np.float64]
