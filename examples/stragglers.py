"""Users that are slow or do not answer: deadlines, over-selection, dropouts and asynchronous training.

All on the simulated clock, with the same data, without sharing and with it. A step of asynchronous training has the
updates of five users, a round those of all that come in time.
"""

import fedcast

small = ["data.num_users=20", "training.local_epochs=1", "training.model=mlp", "rounds.target_accuracy=0.8"]
ways = {
    "all users": ["training.rounds=20"],
    "deadline": ["training.rounds=20", "training.deadline_s=0.4"],
    "over-selection": ["training.rounds=20", "training.participation=0.5", "training.over_selection=0.5"],
    "dropouts": ["training.rounds=20", "training.dropout_probability=0.2"],
    "asynchronous": ["training.rounds=80", "training.buffer_size=5", "training.concurrency=10"],
}

for rule in ("none", "cec"):
    for name, options in ways.items():
        changes = [*small, *options, f"clustering.rule={rule}"]
        run = fedcast.train_scenario(fedcast.load_scenario(base="digits", overrides=changes))
        history, last = run.history, run.history.records[-1]
        lost = [f"{sum(history.column(column))} {column}" for column in ("missed", "surplus", "dropped_out")]
        old = [value for value in history.column("staleness") if value is not None]
        print(
            f"{rule:4} {name:14}  accuracy {last.accuracy:.3f} after {last.seconds:.1f} s, {last.energy_j:.1f} J; "
            + ", ".join(lost if not old else [f"updates {sum(old) / len(old):.1f} steps old"])
        )
