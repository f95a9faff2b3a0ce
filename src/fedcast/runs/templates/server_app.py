"""The server: FedAvg with the users that took part in each round of the exported run, tested after every round."""

import time

import torch
from fedcast_app.model import build
from fedcast_app.task import Task
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

WAIT_S = 120

app = ServerApp()


class ExportedFedAvg(FedAvg):
    """Flower's FedAvg, where a table of rounds says who takes part."""

    def __init__(self, task):
        super().__init__(fraction_evaluate=0.0)
        self.task, self.nodes = task, None

    def configure_train(self, server_round, arrays, config, grid):
        """Send the weights to the users of this round."""
        if self.nodes is None:
            self.nodes = nodes_of_users(grid, len(self.task.users))
        config["server-round"] = server_round
        self.asked = self.task.participants(server_round)
        content = RecordDict({"arrays": arrays, "config": config})
        return [Message(content, self.nodes[user], MessageType.TRAIN) for user in self.asked]

    def aggregate_train(self, server_round, replies):
        """Average the weights; a user that did not answer is an error, since the curve would be another."""
        replies = list(replies)
        if answers := [message for message in replies if message.has_error()]:
            raise RuntimeError(f"round {server_round}: {answers[0].error.reason}")
        if len(replies) != len(self.asked):
            raise RuntimeError(f"round {server_round}: {len(replies)} of {len(self.asked)} users answered")
        return super().aggregate_train(server_round, replies)


def nodes_of_users(grid, num_users):
    """Return the node of each user, by asking all of them."""
    deadline = time.monotonic() + WAIT_S
    while len(nodes := list(grid.get_node_ids())) < num_users:
        if time.monotonic() > deadline:
            raise RuntimeError(
                f"{len(nodes)} clients, expected {num_users}: run with --federation-config num-supernodes={num_users}"
            )
        time.sleep(0.1)
    questions = [Message(RecordDict(), node, MessageType.QUERY) for node in nodes]
    answers = list(grid.send_and_receive(questions))
    return {answer.content["user"]["user"]: answer.metadata.src_node_id for answer in answers}


@app.main()
def main(grid, context):
    """Train all rounds and write the accuracy after each to history_flower.csv."""
    task = Task(context.run_config["folder"])
    model = build(task.folder).to(task.dtype)
    curve = []

    def evaluate(_, arrays):
        model.load_state_dict(arrays.to_torch_state_dict())
        curve.append(task.score(model))
        return MetricRecord({"accuracy": curve[-1][0], "test_loss": curve[-1][1]})

    ExportedFedAvg(task).start(
        grid=grid,
        initial_arrays=ArrayRecord(task.initial_weights()),
        train_config=ConfigRecord(),
        num_rounds=int(context.run_config["num-server-rounds"]),
        evaluate_fn=evaluate,
    )
    torch.save(model.state_dict(), task.folder / "weights_flower.pt")
    task.compare(curve, "history_flower.csv")
