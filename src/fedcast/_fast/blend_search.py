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


class SearchInputs(NamedTuple):
    """The constant inputs. The user of a row "leads" if it is the head, and "joins" if its neighbour is."""

    offsets: Ints
    neighbours: Ids
    leads: Floats  # [E] reduction of the neighbour's cost if the row's user leads it
    joins: Floats  # [E] reduction of the cost of the row's user if the neighbour leads it
    volumes: Floats  # [K + 1] samples sent to each member
    sent: Floats  # [K + 1, Y] volume · (sent distribution - global distribution)
    fixed_total: float  # n, or 0 if the average is over sizes after sharing
    shift_weight: float


class SearchState(NamedTuple):
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


def search(inputs: SearchInputs, kick_users: Ints, kick_links: Ints, state: SearchState, best: SearchState) -> None:
    """Improve to a local optimum; then repeatedly apply random changes, improve around them and keep a lower J.

    Some heads lower J only together, if their contributions to the shift cancel; no single change finds them. An
    attempt is `CHANGES_PER_KICK` changes: a user and one of its links to join over, or -1 to toggle the user. `best` is
    scratch space.
    """
    improve(inputs, state)
    copy_state(state, best)
    kept = 0
    for first in range(0, len(kick_users), CHANGES_PER_KICK):
        for place in range(first, first + CHANGES_PER_KICK):
            if kick_links[place] < 0:
                toggle(inputs, state, kick_users[place])
            else:
                join(inputs, state, kick_users[place], kick_links[place])
        improve_marked(inputs, state)
        if value_of(inputs, state) < value_of(inputs, best) - MIN_IMPROVEMENT:
            copy_state(state, best)
            kept += 1
        else:
            copy_state(best, state)
    if kept > 0:
        improve(inputs, state)


def improve(inputs: SearchInputs, state: SearchState) -> None:
    """Improve until no change of a single user lowers J."""
    for _ in range(MAX_SWEEPS):
        for user in range(len(state.head_of)):
            state.marked[user] = 1
        if improve_marked(inputs, state) == 0:
            break


def improve_marked(inputs: SearchInputs, state: SearchState) -> int:
    """Move, open and close marked users while J decreases; a change marks the users around it."""
    changes = 0
    for _ in range(MAX_SWEEPS):
        before = changes
        for user in range(len(state.head_of)):
            if state.marked[user] == 0:
                continue
            state.marked[user] = 0
            if state.num_members[user] > 0:
                changes += close_head(inputs, state, user)
            else:
                changes += move_user(inputs, state, user)
                changes += open_head(inputs, state, user)
        if changes == before:
            break
    return changes


def objective(inputs: SearchInputs, cost: float, size: float, norm: float) -> float:
    """Return J of total cost, total size and the norm of the shift."""
    over = inputs.fixed_total if inputs.fixed_total > 0 else size
    return cost / over + inputs.shift_weight * norm / size


def value_of(inputs: SearchInputs, state: SearchState) -> float:
    """Return J of a clustering."""
    return objective(inputs, state.totals[0], state.totals[1], state.totals[2])


def norm_after(inputs: SearchInputs, shift: Floats, old: int, new: int) -> float:
    """Return the L1 norm of the shift after a member of `old` moves to `new`."""
    norm = 0.0
    for now, gone, come in zip(shift, inputs.sent[old], inputs.sent[new]):  # noqa: B905 (numba's zip is never strict)
        norm += abs(now - gone + come)
    return norm


def change_shift(inputs: SearchInputs, shift: Floats, old: int, new: int) -> float:
    """Move a member of `old` to `new` in the shift, and return its new L1 norm."""
    norm = 0.0
    gone, come = inputs.sent[old], inputs.sent[new]
    for y in range(len(shift)):
        shift[y] += come[y] - gone[y]
        norm += abs(shift[y])
    return norm


def best_place(
    inputs: SearchInputs, state: SearchState, user: int, closing: int, cost: float, size: float, shift: Floats
) -> tuple[int, float, float]:
    """Return the best head of a user (or -1), the reduction of its cost there, and J.

    The given sums include the user at its present head. Staying is a candidate, unless its head is `closing`.
    """
    old = state.head_of[user]
    best, best_drop = -1, 0.0
    cost_alone, size_alone = cost + state.drop[user], size - inputs.volumes[old]
    best_value = objective(inputs, cost_alone, size_alone, norm_after(inputs, shift, old, -1))
    for link in range(inputs.offsets[user], inputs.offsets[user + 1]):
        head = inputs.neighbours[link]
        if head != closing and state.num_members[head] > 0:
            drop, size_led = inputs.joins[link], size_alone + inputs.volumes[head]
            value = objective(inputs, cost_alone - drop, size_led, norm_after(inputs, shift, old, head))
            if value < best_value - MIN_IMPROVEMENT:
                best, best_drop, best_value = head, drop, value
    return best, best_drop, best_value


def move_user(inputs: SearchInputs, state: SearchState, user: int) -> int:
    """Move a user without members to its best head; return 1 if that changed anything."""
    old = state.head_of[user]
    head, drop, value = best_place(inputs, state, user, -1, state.totals[0], state.totals[1], state.shift)
    if head == old or value >= value_of(inputs, state) - MIN_IMPROVEMENT:
        return 0
    reassign(inputs, state, user, head, drop)
    return 1


def open_head(inputs: SearchInputs, state: SearchState, user: int) -> int:
    """Make a user without members a head of the neighbours that gain by it; return 1 if that lowers J."""
    if inputs.volumes[user] <= 0:
        return 0
    old = state.head_of[user]
    cost = state.totals[0] + state.drop[user]
    size = state.totals[1] - inputs.volumes[old]
    copy_numbers(state.shift, state.trial)
    norm = change_shift(inputs, state.trial, old, -1)
    value = objective(inputs, cost, size, norm)
    joining = 0
    for link in range(inputs.offsets[user], inputs.offsets[user + 1]):
        member = inputs.neighbours[link]
        # The user's own head may join it if it has no other member: the two swap roles.
        if state.num_members[member] == 0 or (member == old and state.num_members[member] == 1):
            left = state.head_of[member]
            new_cost = cost + state.drop[member] - inputs.leads[link]
            new_size = size - inputs.volumes[left] + inputs.volumes[user]
            new_value = objective(inputs, new_cost, new_size, norm_after(inputs, state.trial, left, user))
            if new_value < value - MIN_IMPROVEMENT:
                cost, size, value = new_cost, new_size, new_value
                norm = change_shift(inputs, state.trial, left, user)
                state.plan[joining] = link
                joining += 1
    if joining == 0 or value >= value_of(inputs, state) - MIN_IMPROVEMENT:
        return 0
    assign(inputs, state, user, -1, 0.0)
    for place in range(joining):
        link = state.plan[place]
        assign(inputs, state, inputs.neighbours[link], user, inputs.leads[link])
    accept_trial(state, cost, size, norm)
    return 1


def close_head(inputs: SearchInputs, state: SearchState, head: int) -> int:
    """Move every member of a head, then the head itself, to the best other head; return 1 if that lowers J."""
    cost, size, norm = state.totals[0], state.totals[1], state.totals[2]
    copy_numbers(state.shift, state.trial)
    first, last = inputs.offsets[head], inputs.offsets[head + 1]
    for link in range(first, last):
        user = inputs.neighbours[link]
        if state.head_of[user] == head:
            place, drop, _ = best_place(inputs, state, user, head, cost, size, state.trial)
            cost += state.drop[user] - drop
            size += inputs.volumes[place] - inputs.volumes[head]
            norm = change_shift(inputs, state.trial, head, place)
            state.plan[link - first], state.plan_drop[link - first] = place, drop
    place, drop, value = best_place(inputs, state, head, head, cost, size, state.trial)
    if value >= value_of(inputs, state) - MIN_IMPROVEMENT:
        return 0
    for link in range(first, last):
        user = inputs.neighbours[link]
        if state.head_of[user] == head:
            assign(inputs, state, user, state.plan[link - first], state.plan_drop[link - first])
    accept_trial(state, cost, size, norm)
    reassign(inputs, state, head, place, drop)
    return 1


def toggle(inputs: SearchInputs, state: SearchState, user: int) -> None:
    """Dissolve the cluster of a head, or make another user the head of all that gain by it, ignoring the shift."""
    if state.num_members[user] > 0:
        dissolve(inputs, state, user)
        return
    if state.head_of[user] >= 0:
        reassign(inputs, state, user, -1, 0.0)
    if inputs.volumes[user] > 0:
        for link in range(inputs.offsets[user], inputs.offsets[user + 1]):
            member = inputs.neighbours[link]
            if state.num_members[member] == 0 and inputs.leads[link] > state.drop[member]:
                reassign(inputs, state, member, user, inputs.leads[link])


def join(inputs: SearchInputs, state: SearchState, user: int, link: int) -> None:
    """Make a user a member of the neighbour on a link, whatever roles both had before."""
    head = inputs.neighbours[link]
    if inputs.volumes[head] > 0:
        dissolve(inputs, state, user)
        if state.head_of[head] >= 0:
            reassign(inputs, state, head, -1, 0.0)
        reassign(inputs, state, user, head, inputs.joins[link])


def dissolve(inputs: SearchInputs, state: SearchState, head: int) -> None:
    """Remove all members of a head."""
    for link in range(inputs.offsets[head], inputs.offsets[head + 1]):
        if state.head_of[inputs.neighbours[link]] == head:
            reassign(inputs, state, inputs.neighbours[link], -1, 0.0)


def reassign(inputs: SearchInputs, state: SearchState, user: int, head: int, drop: float) -> None:
    """Assign a user to another head (-1: none) and update the sums."""
    old = state.head_of[user]
    state.totals[0] += state.drop[user] - drop
    state.totals[1] += inputs.volumes[head] - inputs.volumes[old]
    state.totals[2] = change_shift(inputs, state.shift, old, head)
    assign(inputs, state, user, head, drop)


def assign(inputs: SearchInputs, state: SearchState, user: int, head: int, drop: float) -> None:
    """Assign a user to another head (-1: none) without updating the sums."""
    old = state.head_of[user]
    state.head_of[user] = head
    state.drop[user] = drop
    mark_around(inputs, state, user)
    if old >= 0:
        state.num_members[old] -= 1
        if state.num_members[old] == 0:
            mark_around(inputs, state, old)
    if head >= 0:
        state.num_members[head] += 1
        if state.num_members[head] == 1:
            mark_around(inputs, state, head)


def mark_around(inputs: SearchInputs, state: SearchState, user: int) -> None:
    """Mark the user and its neighbours to be examined again."""
    state.marked[user] = 1
    for link in range(inputs.offsets[user], inputs.offsets[user + 1]):
        state.marked[inputs.neighbours[link]] = 1


def accept_trial(state: SearchState, cost: float, size: float, norm: float) -> None:
    """Make the sums of the candidate change the current ones."""
    state.totals[0], state.totals[1], state.totals[2] = cost, size, norm
    copy_numbers(state.trial, state.shift)


def copy_state(source: SearchState, target: SearchState) -> None:
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
