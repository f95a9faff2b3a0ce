r"""The exact minimiser of the inner problem (Eq. 35) on a box.

.. math:: \min_{0 \le x \le u}\; w \max_m \frac{x_m}{r_m} + b^\top x + \tfrac12 \sum_m q_m x_m^2

For a given sharing delay t the coordinates separate, :math:`x_m(t) = \min(z_m, t r_m)` with
:math:`z_m = \mathrm{clip}(-b_m/q_m, 0, u_m)`. The derivative by t,
:math:`w + \sum_{m: t r_m < z_m} r_m (q_m t r_m + b_m)`, is piecewise linear and does not fall: one sort and two running
sums find its root, O(M log M). No iteration, no tolerance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedcast.typing import Floats

# From this many clusters the compiled loop is used, which first has to be compiled or read from the cache. Every head
# has a member, so there are 5,000 users then.
LARGE = 2_500


class BoxMinimum(NamedTuple):
    """A minimiser and the sharing delay it has.

    Attributes:
        x: float64[M].
        time: the largest x/r.
    """

    x: Floats
    time: float


def minimise_on_box(weight: float, rate: Floats, linear: Floats, curvature: Floats, upper: Floats) -> BoxMinimum:
    """Solve the inner problem: NumPy for few clusters, compiled for many.

    Args:
        weight: w, not negative.
        rate: float64[M], r, above 0.
        linear: float64[M], b.
        curvature: float64[M], q, not negative; 0 is allowed.
        upper: float64[M], u, not negative and finite.

    Example:
        >>> box = np.full(2, 1.0)
        >>> minimise_on_box(1.0, np.array([1.0, 4.0]), np.array([-0.5, -1.0]), box, box).x.tolist()
        [0.20588235294117646, 0.8235294117647058]
    """
    if len(rate) >= LARGE:
        return minimise_compiled(weight, rate, linear, curvature, upper)
    return minimise_sorted(weight, rate, linear, curvature, upper)


def minimise_sorted(weight: float, rate: Floats, linear: Floats, curvature: Floats, upper: Floats) -> BoxMinimum:
    """The sort and the running sums, in NumPy."""
    pull = np.maximum(-linear, 0.0)
    # pull/q where that is inside the box; q may be 0, and pull/u need not exist: compare products instead.
    inside = pull < curvature * upper
    free = np.where(inside, pull, np.where(pull > 0, upper, 0.0))
    np.divide(free, curvature, out=free, where=inside)
    delays = free / rate
    order = (-delays).argsort()
    delays, rates = delays[order], rate[order]
    constant = weight + (rates * linear[order]).cumsum()
    steep = (curvature[order] * rates * rates).cumsum()
    following = np.append(delays[1:], 0.0)
    # The first piece, from the right, at whose left end the derivative is not positive any more.
    turned = constant + steep * following <= 0
    piece = int(turned.argmax()) if len(turned) else 0
    if not len(turned) or not turned[piece]:
        return BoxMinimum(np.zeros_like(free), 0.0)
    time = float(delays[piece])
    if steep[piece] > 0:
        time = min(time, float(-constant[piece] / steep[piece]))
    return BoxMinimum(np.minimum(free, time * rate), time)


def minimise_compiled(weight: float, rate: Floats, linear: Floats, curvature: Floats, upper: Floats) -> BoxMinimum:
    """The same without a sort, compiled by numba on first use and kept on disk."""
    from fedcast._fast import compiled
    from fedcast._fast.allocation import box_minimum

    free, x = np.empty(len(rate)), np.empty(len(rate))
    time = compiled(box_minimum)(float(weight), rate, linear, curvature, upper, free, x)
    return BoxMinimum(x, time)


def upper_prices(
    found: BoxMinimum, weight: float, rate: Floats, linear: Floats, curvature: Floats, upper: Floats
) -> Floats:
    """How much the minimum falls per unit of each upper bound, float64[M]: the multipliers of the bounds.

    Where a coordinate meets its bound and the sharing delay at once, the delay takes what is left of its weight w
    after the coordinates that only it holds back, the bound the rest.
    """
    pull = np.maximum(-(linear + curvature * found.x), 0.0)
    at_upper = found.x >= upper * (1 - 1e-12)
    at_delay = found.x >= found.time * rate * (1 - 1e-12)
    both = at_upper & at_delay
    prices = np.where(at_upper, pull, 0.0)
    if both.any():
        left = weight - float((pull * rate)[at_delay & ~at_upper].sum())
        shared = float((pull * rate)[both].sum())
        prices[both] *= 1 - min(max(left / shared, 0.0), 1.0) if shared > 0 else 1.0
    return prices
