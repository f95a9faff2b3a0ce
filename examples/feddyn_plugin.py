"""Your own algorithm: FedDyn (Acar et al. 2021) as a plug-in. A scenario loads it by plugins = ["feddyn_plugin.py"]."""

from dataclasses import dataclass

from fedcast.registry import option, register
from fedcast.training import Algorithm, weighted_sum, zeros_like


@dataclass(frozen=True)
class Options:
    """The table [training.my_feddyn]."""

    alpha: float = option(0.1, "weight of the dynamic regulariser", gt=0)


def terms(options, weights, start, g):
    """Add a (w_k - w) - g_k to the gradient of every local step."""
    return [(-1.0, g), (options.alpha, [own - common for own, common in zip(weights, start, strict=True)])]


def collect(options, upload):
    """Set g_k to g_k - a (w_k - w), and sum the changes of all users by their weights."""
    g = [own - options.alpha * moved for own, moved in zip(upload.users["g"], upload.change, strict=True)]
    return {"g": g}, {"moved": weighted_sum(upload.overall_shares, upload.change)}


def change(options, mean, sums, server):
    """Set h to h - a times that sum; the server moves by the mean change - h / a."""
    h = [old - options.alpha * moved for old, moved in zip(server["h"], sums["moved"], strict=True)]
    return [moved - part / options.alpha for moved, part in zip(mean, h, strict=True)], {"h": h}


start = {"server_state": lambda _, weights: {"h": zeros_like(weights)}, "user_state": lambda _, w: {"g": zeros_like(w)}}
local = {"local_context": lambda _, __, users: users["g"], "local_terms": terms}
register("algorithm", "my_feddyn", Algorithm("FedDyn", Options, **start, **local, collect=collect, change=change))
if __name__ == "__main__":
    from fedcast.testing.algorithms import ALGORITHM_CHECKS

    print(f"my_feddyn passes {sum(check('my_feddyn') is None for check in ALGORITHM_CHECKS)} checks")
