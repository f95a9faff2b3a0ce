"""The clients: each is a user of the exported run, by the number of its partition."""

from functools import cache

from fedcast_app.model import build
from fedcast_app.task import Task
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@cache
def load(folder):
    """Return task and model, once in each process."""
    task = Task(folder)
    return task, build(task.folder).to(task.dtype)


@app.query()
def query(message, context):
    """Say which user this is."""
    content = RecordDict({"user": ConfigRecord({"user": int(context.node_config["partition-id"])})})
    return Message(content=content, reply_to=message)


@app.train()
def train(message, context):
    """Train the server's weights on the samples of this user."""
    task, model = load(context.run_config["folder"])
    user = int(context.node_config["partition-id"])
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    loss = task.train_user(model, user, message.content["config"]["server-round"])
    metrics = MetricRecord({"train_loss": loss, "num-examples": float(task.weights[user])})
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=message)
