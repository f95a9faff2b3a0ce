"""Type aliases shared by all rooms."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Names = NDArray[np.str_]
# User ids as a graph stores them, or as results hold them.
Ids = NDArray[np.int32] | NDArray[np.int64]
