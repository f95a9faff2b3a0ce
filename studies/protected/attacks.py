"""Play membership games by likelihood ratios on `prototypes` of heads with 600 samples of one class.

    python studies/protected/attacks.py out/protected

replaces attacks.json: TPR at 1 % FPR and AUC with 95 % confidence intervals, beside what no test exceeds.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from prepare import Setting, scenario_of
from scipy.stats import norm

from fedcast.runs import prepare_run
from fedcast.runs.attacks import _targets
from fedcast.sharing import find_sharing, gaussian_mu, joined, play

TARGETS, DRAWS = 20, 100
CASES = (("mnist", 1), ("mnist", 4), ("fashion_mnist", 4), ("cifar10", 4))

if __name__ == "__main__":
    rows, kind = [], find_sharing("prototypes")
    for dataset, epsilon in CASES:
        folder = Path(sys.argv[1]) / dataset
        run = prepare_run(scenario_of(dataset, folder, 1.0, 100, Setting("prototypes", epsilon)))
        options, mu = run.world.scenario.sharing.options("sharing"), gaussian_mu(epsilon, 1e-5)
        assert kind.make is not None
        games = [
            play(kind.make, target, options, DRAWS, number, private=True).ratios
            for number, (_, target) in enumerate(_targets(run, TARGETS))
        ]
        scores = joined([each for each in games if each is not None])
        rows.append(
            {
                "dataset": dataset, "kind": "prototypes", "test": "likelihood ratio", "epsilon": epsilon,
                "games": len(scores.inside), "tpr_at_1_percent": round(scores.true_positives(0.01), 4),
                "tpr_interval": np.round(scores.true_positives_interval(0.01), 4).tolist(),
                "tpr_at_most": round(float(norm.cdf(norm.ppf(0.01) + mu)), 4), "auc": round(scores.auc, 4),
                "auc_interval": np.round(scores.auc_interval, 4).tolist(),
                "auc_at_most": round(float(norm.cdf(mu / np.sqrt(2))), 4),
                "proven_epsilon": round(scores.proven_epsilon(1e-5), 3),
            }
        )  # fmt: skip
        print(rows[-1], flush=True)
        lines = ",\n".join(map(json.dumps, rows))
        Path(__file__).with_name("attacks.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
