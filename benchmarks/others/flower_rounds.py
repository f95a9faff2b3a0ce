"""Federated averaging as Flower's PyTorch quickstart writes it: `pip install "flwr[simulation]==1.41.*"`."""

from __future__ import annotations

import os
import time
from importlib.metadata import version

os.environ["FLWR_TELEMETRY_ENABLED"] = os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, MetricRecord, RecordDict  # type: ignore[import-not-found]
from flwr.serverapp import Grid, ServerApp  # type: ignore[import-not-found]
from flwr.serverapp.strategy import FedAvg  # type: ignore[import-not-found]
from flwr.serverapp.strategy.strategy_utils import aggregate_metricrecords  # type: ignore[import-not-found]
from flwr.simulation import run_simulation  # type: ignore[import-not-found]

from others.flower_client import client, network
from others.turns import Turns, from_command_line


def server_of(turns: Turns) -> ServerApp:
    server = ServerApp()
    work = turns.work
    losses: list[float] = []

    def note_loss(replies: list[RecordDict], weighted_by: str) -> MetricRecord:
        if len(replies) != work.per_round:
            raise RuntimeError(f"{len(replies)} of {work.per_round} clients answered")
        metrics = aggregate_metricrecords(replies, weighted_by)
        losses.append(float(metrics["train_loss"]))
        return metrics

    def between_rounds(number: int, arrays: ArrayRecord) -> None:
        """Called before the first round and after each, with the server's new weights."""
        del arrays
        if number > 0:
            turns.stop(losses[-1])
        if number == turns.rounds:
            turns.note_peak()
        else:
            turns.start()

    @server.main()  # type: ignore[untyped-decorator]
    def main(grid: Grid, context: Context) -> None:
        del context
        while len(list(grid.get_node_ids())) < work.num_users:  # Flower itself now and then begins with fewer
            time.sleep(0.1)
        strategy = FedAvg(
            fraction_train=work.per_round / work.num_users,
            fraction_evaluate=0.0,
            min_available_nodes=work.num_users,
            train_metrics_aggr_fn=note_loss,
        )
        model = str(turns.model.resolve())
        strategy.start(
            grid=grid,
            initial_arrays=ArrayRecord(network(model).state_dict()),
            train_config=ConfigRecord({"workload": work.name, "model": model}),
            num_rounds=turns.rounds,
            evaluate_fn=between_rounds,
        )

    return server


def main() -> None:
    turns = from_command_line()
    turns.ready()
    run_simulation(
        server_app=server_of(turns),
        client_app=client,
        num_supernodes=turns.work.num_users,
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {"num_cpus": 1, "log_to_driver": False},
        },
    )
    turns.finish(version=f"flwr {version('flwr')}, ray {version('ray')}, torch {torch.__version__}")


if __name__ == "__main__":
    main()
