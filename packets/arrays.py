"""Short names of NumPy's arrays, for annotations only: importing them imports NumPy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

U8 = NDArray[np.uint8]
"""Octets; of frames and packets ``(n, length)``."""
U16 = NDArray[np.uint16]
U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
F64 = NDArray[np.float64]
Mask = NDArray[np.bool_]
"""``(n,)``, one for each row."""
Reasons = NDArray[np.uint8]
"""``(n,)``, why a row was dropped; 0: it was not."""
