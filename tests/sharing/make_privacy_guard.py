"""Write what PrivacyGuard finds for scores of a membership test to privacy_guard.json.

    PYTHONPATH=PrivacyGuard python tests/sharing/make_privacy_guard.py

with a checkout of github.com/facebookresearch/PrivacyGuard (fb9c26c; it is not on PyPI), PyTorch and scikit-learn.
"""

import json
from pathlib import Path

import numpy as np

SEED, GAMES, GAPS = 5, 5000, (0.0, 0.5, 1.5)


def measures(gap: float) -> dict[str, float]:
    """Return what PrivacyGuard finds for normal scores whose means differ by `gap`."""
    import torch
    from privacy_guard.analysis.mia.mia_results import MIAResults

    rng = np.random.default_rng([SEED, int(10 * gap)])
    inside, outside = gap + rng.standard_normal(GAMES), rng.standard_normal(GAMES)
    results = MIAResults(torch.from_numpy(inside), torch.from_numpy(outside))
    _, auc, _ = results.compute_acc_auc_epsilon(1e-5)
    tpr, fpr = results.get_tpr_fpr()
    at = [float(tpr[np.searchsorted(fpr, limit, side="right") - 1]) for limit in (0.01, 0.001)]
    return {"gap": gap, "auc": float(auc), "tpr_at_1_percent": at[0], "tpr_at_01_percent": at[1]}


if __name__ == "__main__":
    document = {"seed": SEED, "games": GAMES, "rows": [measures(gap) for gap in GAPS]}
    Path(__file__).with_name("privacy_guard.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
