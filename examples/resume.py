"""Interrupt a run, resume it, and get the same result to the last bit.

The name of a run folder has a hash of all that determines the run. Ctrl-C in `fedcast train` does what `stop` does.
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
    """Return whether to stop with a checkpoint; called after every round."""
    return next(rounds) == 3


assert fedcast.run_scenario(scenario, folder / "interrupted", should_stop=stop) is None
print("stopped after round 3")

# The same call resumes the run; a third call would find it finished and return at once.
resumed = fedcast.load_run(fedcast.run_scenario(scenario, folder / "interrupted"))
straight = fedcast.load_run(fedcast.run_scenario(scenario, folder / "straight"))

print(f"resumed up to round {resumed.history.records[-1].round}, accuracy {resumed.history.records[-1].accuracy:.4f}")
print("the same as without the interruption:", resumed.history.records == straight.history.records)
print("files of the run:", ", ".join(sorted(path.name for path in resumed.folder.iterdir() if path.name[0] != ".")))
