"""Your own algorithm: FedDyn (Acar et al. 2021) as a plug-in. A scenario loads it by plugins = ["feddyn_plugin.py"]."""

from dataclasses import dataclass

from fedcast.registry import option, register
from fedcast.training import Algorithm, weighted_sum


@dataclass(frozen=True)
class Options:
    """The table [training.my_feddyn]."""

    alpha: float = option(0.1, "weight of the dynamic regulariser", gt=0)


def zeros(options, weights):  # g_k of every user and h of the server before the first round
    return {"g": [weight.new_zeros(weight.shape) for weight in weights]}


def terms(options, weights, start, g):  # every local step adds a (w_k - w) - g_k to its gradient
    return [(-1.0, g), (options.alpha, [own - common for own, common in zip(weights, start, strict=True)])]


def collect(options, upload):  # g_k becomes g_k - a (w_k - w); the changes of all users are summed by their weights
    g = [own - options.alpha * moved for own, moved in zip(upload.users["g"], upload.change, strict=True)]
    return {"g": g}, {"moved": weighted_sum(upload.overall_shares, upload.change)}


def change(options, mean, sums, server):  # h becomes h - a sum; the server moves by the mean change - h / a
    h = [old - options.alpha * moved for old, moved in zip(server["g"], sums["moved"], strict=True)]
    return [moved - part / options.alpha for moved, part in zip(mean, h, strict=True)], {"g": h}


hooks = {"local_context": lambda options, server, users: users["g"], "local_terms": terms, "collect": collect}
feddyn = Algorithm("FedDyn as a plug-in", Options, server_state=zeros, user_state=zeros, change=change, **hooks)
register("algorithm", "my_feddyn", feddyn)
if __name__ == "__main__":
    from fedcast.testing.algorithms import ALGORITHM_CHECKS

    print(f"my_feddyn passes {sum(check('my_feddyn') is None for check in ALGORITHM_CHECKS)} checks")
