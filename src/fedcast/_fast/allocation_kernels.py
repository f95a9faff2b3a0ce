"""Loops over members and clusters, compiled by `fedcast._fast.kernels` on first use."""

from __future__ import annotations

from fedcast.typing import Floats, Ints


def emd_rows(
    own: Floats, sent: Floats, slope: Floats, cluster: Ints, samples: Floats, value: Floats, change: Floats
) -> None:
    """Write the EMD of each member and its derivative by volume, in one pass without temporary arrays."""
    for member in range(own.shape[0]):
        head = cluster[member]
        total, rise = 0.0, 0.0
        # No branch: signs are random to the processor, and a wrong guess costs more than the arithmetic.
        for column in range(own.shape[1]):
            mixed = own[member, column] + sent[head, column]
            total += abs(mixed)
            rise += slope[head, column] * ((mixed > 0) - (mixed < 0))
        held = samples[member]
        if held > 0:
            value[member] = total / held
            change[member] = (rise - total / held) / held
        else:
            value[member] = 0.0
            for column in range(own.shape[1]):
                value[member] += abs(slope[head, column])
            change[member] = 0.0


def box_minimum(
    weight: float, rate: Floats, linear: Floats, curvature: Floats, upper: Floats, free: Floats, out: Floats
) -> float:
    """Solve the inner problem without a sort: safeguarded Newton on the derivative by the sharing delay t.

    The derivative does not fall and is linear between breakpoints, the delays at which coordinates stop being held
    back. A pass, O(M), looks at the piece around one t: either the root is in it, exactly, or the bracket shrinks to
    one side of it. The next t is the root of the piece, or the middle of the bracket where Newton's step leaves it or
    every other pass, so that the number of passes is bounded; it is 5 to 10 in practice. Arguments are those of
    `fedcast.allocation.inner.minimise_on_box`; `free` is scratch space, `out` the minimiser.

    Returns:
        The sharing delay t.
    """
    high = 0.0
    for m in range(len(rate)):
        best = 0.0
        if linear[m] < 0:
            best = upper[m]
            if -linear[m] < curvature[m] * upper[m]:
                best = -linear[m] / curvature[m]
        free[m] = best
        out[m] = best / rate[m]
        high = max(high, out[m])
    low, time, passes, searching = 0.0, 0.0, 0, high > 0
    while searching:
        constant, steep, left, right = weight, 0.0, low, high
        for m in range(len(rate)):
            if out[m] > time:
                constant += rate[m] * linear[m]
                steep += curvature[m] * rate[m] * rate[m]
                right = min(right, out[m])
            else:
                left = max(left, out[m])
        passes += 1
        if constant + steep * right < 0:
            low = right
        elif constant + steep * left > 0:
            high = left
        else:
            low = high = min(max(-constant / steep, left), right) if steep > 0 else right
        time = -constant / steep if steep > 0 and passes % 2 == 1 else low
        if not low < time < high:
            time = (low + high) / 2
        searching = low < high
    for m in range(len(rate)):
        out[m] = min(free[m], time * rate[m])
    return time
