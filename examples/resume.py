"""Interrupt a run, go on, and get the same result to the last bit.

A run has a folder of its own, named after all that decides it; Ctrl-C in `fedcast train` does what `stop` does here.
"""

import itertools
import tempfile
from pathlib import Path

import fedcast

small = ["data.num_users=20", "training.rounds=8", "training.local_epochs=2"]
scenario = fedcast.load_scenario(base="digits", overrides=small)
folder = Path(tempfile.mkdtemp())

rounds = itertools.count(1)


def stop() -> bool:
    """Asked after every round; True ends the run with a checkpoint."""
    return next(rounds) == 3


assert fedcast.run_scenario(scenario, folder / "interrupted", should_stop=stop) is None
print("stopped after round 3")

# The same call goes on; a third one would find the run done and return at once.
resumed = fedcast.load_run(fedcast.run_scenario(scenario, folder / "interrupted"))
straight = fedcast.load_run(fedcast.run_scenario(scenario, folder / "straight"))

print(f"went on to round {resumed.history.records[-1].round}, accuracy {resumed.history.records[-1].accuracy:.4f}")
print("the same as without the interruption:", resumed.history.records == straight.history.records)
print("files of the run:", ", ".join(sorted(path.name for path in resumed.folder.iterdir() if path.name[0] != ".")))
