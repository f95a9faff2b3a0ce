r"""Step sizes of the stochastic search, checked when they are made.

Stochastic successive convex approximation converges if, with :math:`\rho_t` the weight of a new surrogate and
:math:`\mu_t` that of a new iterate, both go to 0, :math:`\sum \rho_t = \sum \mu_t = \infty`,
:math:`\sum \rho_t^2, \sum \mu_t^2 < \infty` and :math:`\mu_t / \rho_t \to 0`. For powers of t this is
:math:`\tfrac12 < \kappa_1 < \kappa_2 \le 1`. Both are 1 at t = 1, so that the starting surrogate is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fedcast.errors import FedcastError

StepSize = Callable[[int], float]


@dataclass(frozen=True)
class Power:
    """The step size t^-exponent.

    Example:
        >>> Power(0.6)(1), round(Power(0.6)(10), 3)
        (1.0, 0.251)
    """

    exponent: float

    def __post_init__(self) -> None:
        if not 0.5 < self.exponent <= 1:
            raise FedcastError(
                f"step size: exponent {self.exponent}, expected above 0.5 (squares must have a sum) and at most 1 "
                f"(the steps themselves must have none)"
            )

    def __call__(self, step: int) -> float:
        """The step size of step 1, 2, ..."""
        return float(step**-self.exponent)


@dataclass(frozen=True)
class Schedule:
    """Weights of new surrogates and of new iterates.

    Attributes:
        surrogate: rho of each step.
        iterate: mu of each step.
    """

    surrogate: StepSize
    iterate: StepSize


def ssca_schedule(surrogate_exponent: float, iterate_exponent: float) -> Schedule:
    """The schedule of JFVO (Eq. 33 and 36).

    Example:
        >>> ssca_schedule(0.6, 0.9).iterate(1)
        1.0
    """
    if not surrogate_exponent < iterate_exponent:
        raise FedcastError(
            f"allocation.iterate_exponent: {iterate_exponent}, expected above surrogate_exponent = "
            f"{surrogate_exponent}, so that iterates settle more slowly than surrogates"
        )
    return Schedule(Power(surrogate_exponent), Power(iterate_exponent))


def always(step: int) -> float:  # noqa: ARG001
    """Step size 1: only the newest counts."""
    return 1.0
