"""A slow smooth function as a table of polynomials, as exact as the function itself to far below float32."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedcast.typing import Floats

Function = Callable[[Floats], Floats]

_TERMS = 8
_CHECKS = 17
# So far below the spacing of float32 (6e-8) that a rounded value differs once in 30,000 times, by one step.
_TOLERANCE = 1e-12
# Smaller values, one in 2**14 of those spread evenly, are left to the function.
_OCTAVES = 14


@dataclass(frozen=True)
class Lookup:
    """Polynomials of degree 7 on intervals of 1/16 octave; see `tabulate`."""

    function: Function
    lowest: int
    centres: Floats
    scales: Floats
    coefficients: Floats

    def __call__(self, values: Floats) -> Floats:
        """The function at the values, float64[N]."""
        from fedcast._fast import graph as kernels

        result = kernels.look_up(values, self.lowest, self.centres, self.scales, self.coefficients)
        missing = np.flatnonzero(np.isnan(result))
        if len(missing):
            result[missing] = self.function(values[missing])
        return result


def tabulate(function: Function, highest: float) -> Lookup:
    """A table of a positive function on (0, highest].

    Intervals grow with the value, as laws of distance want it. Where a polynomial is not exact to 1e-12, at a kink
    say, and below the table, the function itself is asked.

    Example:
        >>> table = tabulate(lambda squared: squared**-1.05, highest=400.0)
        >>> values = np.array([0.001, 1.0, 399.0])
        >>> bool(np.allclose(table(values), values**-1.05, rtol=1e-11))
        True
    """
    from fedcast._fast.graph import INTERVAL_SHIFT

    last = int(np.float64(highest).view(np.int64)) >> INTERVAL_SHIFT
    lowest = last - 16 * _OCTAVES
    edges = (np.arange(lowest, last + 2) << INTERVAL_SHIFT).view(np.float64)
    centres, halves = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    nodes = np.cos(np.pi * (np.arange(_TERMS) + 0.5) / _TERMS)
    coefficients = np.linalg.solve(np.vander(nodes, increasing=True), _sampled(function, centres, halves, nodes).T).T
    checks = np.linspace(-1, 1 - 1e-9, _CHECKS)
    exact = _sampled(function, centres, halves, checks)
    error = np.abs(coefficients @ np.vander(checks, _TERMS, increasing=True).T - exact)
    coefficients[(error > _TOLERANCE * np.abs(exact)).any(axis=1)] = np.nan
    return Lookup(function, lowest, centres, 1 / halves, np.ascontiguousarray(coefficients))


def _sampled(function: Function, centres: Floats, halves: Floats, places: Floats) -> Floats:
    points = centres[:, None] + halves[:, None] * places
    return function(points.reshape(-1)).reshape(points.shape)
