"""A plan from tables alone: who holds how many samples of which class, and who can reach whom. No dataset, no PyTorch.

Tables of positions and devices work the same way; docs/how-to/own-tables.md describes their columns.
"""

import sys
import tempfile
from pathlib import Path

import fedcast

folder = Path(tempfile.mkdtemp())
(folder / "counts.csv").write_text(
    "user,cat,dog,fox\nhall,40,40,40\ngate,90,0,0\nyard,0,80,0\nroof,0,0,70\nlab,30,30,0\nshop,0,60,0\n",
    encoding="utf-8",
)
(folder / "links.csv").write_text(
    "user_a,user_b,rate_bps,closeness\nhall,gate,5e6,0.9\nhall,yard,4e6,0.8\nhall,roof,2e6,0.7\n"
    "lab,shop,6e6,0.9\nroof,shop,9e6,0.2\n",
    encoding="utf-8",
)

population = fedcast.read_counts(folder / "counts.csv")
scenario = fedcast.load_scenario(
    overrides=[
        "data.dataset=synthetic",
        f"data.num_users={population.num_users}",
        f"trust.links_file={folder / 'links.csv'}",  # roof-shop is fast, but they do not trust each other
        "clustering.rule=gain",
    ]
)
world = fedcast.make_world(scenario, population=population)
plan = fedcast.make_plan(scenario, world=world)

for user, head in enumerate(plan.head_of):
    role = f"receives {plan.shared[head]} samples of {plan.names[head]}" if head >= 0 else "keeps its data"
    print(f"{plan.names[user]} {role}, computes at {plan.frequency_hz[user] / 1e9:.2f} GHz")
print(f"expected: {plan.delay_without_s:.1f} s without sharing, {plan.delay.total_s:.1f} s with it")
fedcast.save_plan(plan, folder / "plan.json")
print("PyTorch was", "loaded" if "torch" in sys.modules else "not loaded")
