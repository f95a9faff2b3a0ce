r"""Local search for the clustering with the smallest mean divergence plus shift: kernels of the rule ``blend``.

The objective of a clustering with total cost W (see `fedcast.clustering.costs`), total size after sharing
:math:`T = \sum_k \tilde n_k` and received deviation :math:`V = \sum_c n^s_m (q_m - P_g)` is

.. math:: J = \frac{W}{Z} + \lambda \frac{\|V\|_1}{T}, \qquad Z = T \text{ (weighting B) or } n \text{ (A, C)}

The shift couples all clusters, so the gain of a link alone does not determine the effect of a change. But a change
affects few terms: W, T and V are updated, and every candidate is evaluated by the exact J in O(Y).

Head -1 means no head; its row in `volumes` and `sent` is the last one, all 0.
"""

from __future__ import annotations

from typing import NamedTuple

from fedcast.typing import Floats, Ids, Ints

MAX_SWEEPS = 50
MIN_IMPROVEMENT = 1e-12
CHANGES_PER_KICK = 3


class World(NamedTuple):
    """The constant inputs. The user of a row "leads" if it is the head, and "joins" if its neighbour is."""

    offsets: Ints
    neighbours: Ids
    leads: Floats  # [E] reduction of the neighbour's cost if the row's user leads it
    joins: Floats  # [E] reduction of the cost of the row's user if the neighbour leads it
    volumes: Floats  # [K + 1] samples sent to each member
    sent: Floats  # [K + 1, Y] volume · (sent distribution - global distribution)
    fixed_total: float  # n, or 0 if the average is over sizes after sharing
    shift_weight: float


class State(NamedTuple):
    """A clustering and its sums."""

    head_of: Ints  # [K]
    num_members: Ints  # [K]
    drop: Floats  # [K] reduction of the cost of each user
    totals: Floats  # [3] cost, size and L1 norm of the shift
    shift: Floats  # [Y]
    marked: Ints  # [K] 1: to be examined again
    trial: Floats  # [Y] scratch: the shift of a candidate change
    plan: Ints  # [largest degree] scratch: reassignments of the candidate change
    plan_drop: Floats  # [largest degree] scratch


class Kicks(NamedTuple):
    """Random changes: a user and one of its links to join over, or -1 to toggle the user."""

    users: Ints
    links: Ints


def search(world: World, kicks: Kicks, state: State, best: State) -> None:
    """Improve to a local optimum; then repeatedly apply random changes, improve around them and keep a lower J.

    Some heads lower J only together, if their contributions to the shift cancel; no single change finds them. An
    attempt is `CHANGES_PER_KICK` entries of `kicks`; `best` is scratch space.
    """
    improve(world, state)
    copy_state(state, best)
    kept = 0
    for first in range(0, len(kicks.users), CHANGES_PER_KICK):
        for place in range(first, first + CHANGES_PER_KICK):
            if kicks.links[place] < 0:
                toggle(world, state, kicks.users[place])
            else:
                join(world, state, kicks.users[place], kicks.links[place])
        improve_marked(world, state)
        if value_of(world, state) < value_of(world, best) - MIN_IMPROVEMENT:
            copy_state(state, best)
            kept += 1
        else:
            copy_state(best, state)
    if kept > 0:
        improve(world, state)


def improve(world: World, state: State) -> None:
    """Improve until no change of a single user lowers J."""
    for _ in range(MAX_SWEEPS):
        for user in range(len(state.head_of)):
            state.marked[user] = 1
        if improve_marked(world, state) == 0:
            break


def improve_marked(world: World, state: State) -> int:
    """Move, open and close marked users while J decreases; a change marks the users around it."""
    changes = 0
    for _ in range(MAX_SWEEPS):
        before = changes
        for user in range(len(state.head_of)):
            if state.marked[user] == 0:
                continue
            state.marked[user] = 0
            if state.num_members[user] > 0:
                changes += close_head(world, state, user)
            else:
                changes += move_user(world, state, user)
                changes += open_head(world, state, user)
        if changes == before:
            break
    return changes


def objective(world: World, cost: float, size: float, norm: float) -> float:
    """Return J of total cost, total size and the norm of the shift."""
    over = world.fixed_total if world.fixed_total > 0 else size
    return cost / over + world.shift_weight * norm / size


def value_of(world: World, state: State) -> float:
    """Return J of a clustering."""
    return objective(world, state.totals[0], state.totals[1], state.totals[2])


def norm_after(world: World, shift: Floats, old: int, new: int) -> float:
    """Return the L1 norm of the shift after a member of `old` moves to `new`."""
    norm = 0.0
    for now, gone, come in zip(shift, world.sent[old], world.sent[new]):  # noqa: B905 (numba's zip is never strict)
        norm += abs(now - gone + come)
    return norm


def change_shift(world: World, shift: Floats, old: int, new: int) -> float:
    """Move a member of `old` to `new` in the shift, and return its new L1 norm."""
    norm = 0.0
    gone, come = world.sent[old], world.sent[new]
    for y in range(len(shift)):
        shift[y] += come[y] - gone[y]
        norm += abs(shift[y])
    return norm


def best_place(
    world: World, state: State, user: int, closing: int, cost: float, size: float, shift: Floats
) -> tuple[int, float, float]:
    """Return the best head of a user (or -1), the reduction of its cost there, and J.

    The given sums include the user at its present head. Staying is a candidate, unless its head is `closing`.
    """
    old = state.head_of[user]
    best, best_drop = -1, 0.0
    cost_alone, size_alone = cost + state.drop[user], size - world.volumes[old]
    best_value = objective(world, cost_alone, size_alone, norm_after(world, shift, old, -1))
    for link in range(world.offsets[user], world.offsets[user + 1]):
        head = world.neighbours[link]
        if head != closing and state.num_members[head] > 0:
            drop, size_led = world.joins[link], size_alone + world.volumes[head]
            value = objective(world, cost_alone - drop, size_led, norm_after(world, shift, old, head))
            if value < best_value - MIN_IMPROVEMENT:
                best, best_drop, best_value = head, drop, value
    return best, best_drop, best_value


def move_user(world: World, state: State, user: int) -> int:
    """Move a user without members to its best head; return 1 if that changed anything."""
    old = state.head_of[user]
    head, drop, value = best_place(world, state, user, -1, state.totals[0], state.totals[1], state.shift)
    if head == old or value >= value_of(world, state) - MIN_IMPROVEMENT:
        return 0
    reassign(world, state, user, head, drop)
    return 1


def open_head(world: World, state: State, user: int) -> int:
    """Make a user without members a head of the neighbours that gain by it; return 1 if that lowers J."""
    if world.volumes[user] <= 0:
        return 0
    old = state.head_of[user]
    cost = state.totals[0] + state.drop[user]
    size = state.totals[1] - world.volumes[old]
    copy_numbers(state.shift, state.trial)
    norm = change_shift(world, state.trial, old, -1)
    value = objective(world, cost, size, norm)
    joining = 0
    for link in range(world.offsets[user], world.offsets[user + 1]):
        member = world.neighbours[link]
        # The user's own head may join it if it has no other member: the two swap roles.
        if state.num_members[member] == 0 or (member == old and state.num_members[member] == 1):
            left = state.head_of[member]
            new_cost = cost + state.drop[member] - world.leads[link]
            new_size = size - world.volumes[left] + world.volumes[user]
            new_value = objective(world, new_cost, new_size, norm_after(world, state.trial, left, user))
            if new_value < value - MIN_IMPROVEMENT:
                cost, size, value = new_cost, new_size, new_value
                norm = change_shift(world, state.trial, left, user)
                state.plan[joining] = link
                joining += 1
    if joining == 0 or value >= value_of(world, state) - MIN_IMPROVEMENT:
        return 0
    assign(world, state, user, -1, 0.0)
    for place in range(joining):
        link = state.plan[place]
        assign(world, state, world.neighbours[link], user, world.leads[link])
    accept_trial(state, cost, size, norm)
    return 1


def close_head(world: World, state: State, head: int) -> int:
    """Move every member of a head, then the head itself, to the best other head; return 1 if that lowers J."""
    cost, size, norm = state.totals[0], state.totals[1], state.totals[2]
    copy_numbers(state.shift, state.trial)
    first, last = world.offsets[head], world.offsets[head + 1]
    for link in range(first, last):
        user = world.neighbours[link]
        if state.head_of[user] == head:
            place, drop, _ = best_place(world, state, user, head, cost, size, state.trial)
            cost += state.drop[user] - drop
            size += world.volumes[place] - world.volumes[head]
            norm = change_shift(world, state.trial, head, place)
            state.plan[link - first], state.plan_drop[link - first] = place, drop
    place, drop, value = best_place(world, state, head, head, cost, size, state.trial)
    if value >= value_of(world, state) - MIN_IMPROVEMENT:
        return 0
    for link in range(first, last):
        user = world.neighbours[link]
        if state.head_of[user] == head:
            assign(world, state, user, state.plan[link - first], state.plan_drop[link - first])
    accept_trial(state, cost, size, norm)
    reassign(world, state, head, place, drop)
    return 1


def toggle(world: World, state: State, user: int) -> None:
    """Dissolve the cluster of a head, or make another user the head of all that gain by it, ignoring the shift."""
    if state.num_members[user] > 0:
        dissolve(world, state, user)
        return
    if state.head_of[user] >= 0:
        reassign(world, state, user, -1, 0.0)
    if world.volumes[user] > 0:
        for link in range(world.offsets[user], world.offsets[user + 1]):
            member = world.neighbours[link]
            if state.num_members[member] == 0 and world.leads[link] > state.drop[member]:
                reassign(world, state, member, user, world.leads[link])


def join(world: World, state: State, user: int, link: int) -> None:
    """Make a user a member of the neighbour on a link, whatever roles both had before."""
    head = world.neighbours[link]
    if world.volumes[head] > 0:
        dissolve(world, state, user)
        if state.head_of[head] >= 0:
            reassign(world, state, head, -1, 0.0)
        reassign(world, state, user, head, world.joins[link])


def dissolve(world: World, state: State, head: int) -> None:
    """Remove all members of a head."""
    for link in range(world.offsets[head], world.offsets[head + 1]):
        if state.head_of[world.neighbours[link]] == head:
            reassign(world, state, world.neighbours[link], -1, 0.0)


def reassign(world: World, state: State, user: int, head: int, drop: float) -> None:
    """Assign a user to another head (-1: none) and update the sums."""
    old = state.head_of[user]
    state.totals[0] += state.drop[user] - drop
    state.totals[1] += world.volumes[head] - world.volumes[old]
    state.totals[2] = change_shift(world, state.shift, old, head)
    assign(world, state, user, head, drop)


def assign(world: World, state: State, user: int, head: int, drop: float) -> None:
    """Assign a user to another head (-1: none) without updating the sums."""
    old = state.head_of[user]
    state.head_of[user] = head
    state.drop[user] = drop
    mark_around(world, state, user)
    if old >= 0:
        state.num_members[old] -= 1
        if state.num_members[old] == 0:
            mark_around(world, state, old)
    if head >= 0:
        state.num_members[head] += 1
        if state.num_members[head] == 1:
            mark_around(world, state, head)


def mark_around(world: World, state: State, user: int) -> None:
    """Mark the user and its neighbours to be examined again."""
    state.marked[user] = 1
    for link in range(world.offsets[user], world.offsets[user + 1]):
        state.marked[world.neighbours[link]] = 1


def accept_trial(state: State, cost: float, size: float, norm: float) -> None:
    """Make the sums of the candidate change the current ones."""
    state.totals[0], state.totals[1], state.totals[2] = cost, size, norm
    copy_numbers(state.trial, state.shift)


def copy_state(source: State, target: State) -> None:
    """Copy a state, except for marks and scratch space."""
    copy_numbers(source.head_of, target.head_of)
    copy_numbers(source.num_members, target.num_members)
    copy_numbers(source.drop, target.drop)
    copy_numbers(source.totals, target.totals)
    copy_numbers(source.shift, target.shift)


def copy_numbers(source: Floats | Ints, target: Floats | Ints) -> None:
    """Copy one array or list into another."""
    for place in range(len(source)):
        target[place] = source[place]
