"""Engines: local training of users, one after another (`loop`) or many at once (`stacked`)."""

from fedcast.training.engines.choose import choose_device, choose_engine, worth_compiling
from fedcast.training.engines.engine_protocol import BlockResult, Engine, Round, Task, rows_of

__all__ = ["BlockResult", "Engine", "Round", "Task", "choose_device", "choose_engine", "rows_of", "worth_compiling"]
