"""Write dp_accounting.json: ε of composed releases by `dp-accounting`, which `test_privacy.py` compares with.

It needs an environment of its own (dp-accounting 0.6 requires attrs < 24, fedcast's other packages newer ones):

    python -m venv env && env/bin/pip install dp-accounting==0.6.0 && env/bin/python tests/sharing/make_dp_accounting.py
"""

import json
from importlib.metadata import version
from pathlib import Path

DELTA = 1e-5
# μ of Gaussian releases, and ε of releases with δ = 0.
CASES = [
    ([0.1], []), ([0.26805], []), ([0.5], []), ([0.92493], []), ([1.66603], []), ([3.0], []),
    ([0.2] * 10, []), ([0.3, 0.4, 0.5, 0.6], []), ([0.25] * 40, []),
    ([], [0.5]), ([0.5], [0.5]), ([0.9], [0.1, 0.2]), ([0.3], [1.0, 1.0, 1.0]), ([0.2], [0.05] * 30),
]  # fmt: skip


def epsilon_of(mus: list[float], pure: list[float]) -> float:
    """Return ε of the composition from privacy loss distributions, rounded up by their grid."""
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    losses = [pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=1e-4) for mu in mus]
    losses += [
        pld.from_privacy_parameters(common.DifferentialPrivacyParameters(epsilon, 0.0), 1e-4) for epsilon in pure
    ]
    total = losses[0]
    for loss in losses[1:]:
        total = total.compose(loss)
    return float(total.get_epsilon_for_delta(DELTA))


if __name__ == "__main__":
    rows = [{"mu": mus, "epsilon": pure, "total": epsilon_of(mus, pure)} for mus, pure in CASES]
    content = {"dp-accounting": version("dp-accounting"), "delta": DELTA, "rows": rows}
    Path(__file__).with_name("dp_accounting.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
