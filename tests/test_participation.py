"""Participation in rounds and asynchronous steps, against lists of events written out here."""

import itertools

import numpy as np
import pytest

from fedcast.errors import FedcastError
from fedcast.participation import Participation, attend, buffered_steps

TIMES = np.array([1.0, 7.0, 2.5, 4.0, 9.0, 3.0, 6.0, 2.5])
EVERYONE = np.arange(len(TIMES))


def attended(number=1, users=EVERYONE, dropped=frozenset(), **options):
    return attend(users, Participation(**options), set(dropped), TIMES, seed=3, round_number=number)


@pytest.mark.parametrize(
    "options",
    [
        {"deadline_s": 4.0}, {"deadline_s": 20.0}, {"participation": 0.5, "over_selection": 0.5},
        {"participation": 0.5, "over_selection": 0.5, "deadline_s": 3.5, "dropout_probability": 0.3},
        {"participation": 0.25, "over_selection": 1.0, "deadline_s": 2.6},
        {"deadline_s": 4.0, "dropout_probability": 0.4},
    ],
)  # fmt: skip
def test_a_round_against_a_clock_that_ticks(options):
    """Updates arrive one after the other; the server stops when it has enough, and at the deadline."""
    limit, needed = options.get("deadline_s", np.inf), round(options.get("participation", 1.0) * len(TIMES))
    for number in range(1, 60):
        found = attended(number, **options)
        trained = sorted(found.trained.tolist())
        assert len(trained) + found.dropped_out == Participation(**options).invited(len(TIMES))
        arrived, ended = [], None
        for time, user in sorted((TIMES[user], user) for user in trained):
            if time > limit or len(arrived) == needed:
                break
            arrived.append(user)
            ended = time
        waits_in_vain = len(arrived) < needed and len(arrived) < len(trained)
        assert found.users.tolist() == sorted(arrived)
        assert found.seconds == (limit if waits_in_vain else (ended or 0.0))
        assert found.late.tolist() == [user for user in trained if TIMES[user] > limit]
        assert sorted([*found.users, *found.late, *found.surplus]) == trained


def test_nobody_meets_the_deadline():
    found = attended(users=np.array([1, 4, 6]), deadline_s=5.0)
    assert (found.users.tolist(), found.late.tolist(), found.seconds) == ([], [1, 4, 6], 5.0)


def test_draws_are_those_of_rounds_without_a_clock():
    """A deadline changes who counts, not who is invited."""
    plain, timed = attended(participation=0.5), attended(participation=0.5, deadline_s=4.0)
    assert sorted(timed.trained.tolist()) == plain.users.tolist()


def test_dropouts_are_drawn_for_each_user_and_round():
    counts = [attended(number, deadline_s=99.0, dropout_probability=0.25).dropped_out for number in range(1, 401)]
    assert np.mean(counts) == pytest.approx(2.0, abs=4 * np.sqrt(8 * 0.25 * 0.75 / 400))
    assert attended(dropped={(1, 2), (2, 3)}, deadline_s=99.0).users.tolist() == [0, 1, 3, 4, 5, 6, 7]


def steps(count, times, users=None, seed=0, dropped=frozenset(), **options):
    users = np.arange(len(times)) if users is None else users
    found = buffered_steps(users, Participation(**options), set(dropped), np.array(times), seed=seed)
    return list(itertools.islice(found, count))


def test_asynchronous_steps_of_users_that_train_all_the_time():
    """User k arrives at t_k, 2 t_k, …; its j-th update started at the arrival before, at the version of that time."""
    times, size = [1.0, np.sqrt(2), np.pi, np.sqrt(13)], 3
    arrivals = sorted((count * time, user, count) for user, time in enumerate(times) for count in range(1, 200))
    arrivals = arrivals[: 40 * size]
    ends = [arrivals[place][0] for place in range(size - 1, len(arrivals), size)]
    for number, step in enumerate(steps(40, times, buffer_size=size), start=1):
        part = arrivals[(number - 1) * size : number * size]
        assert step.users.tolist() == [user for _, user, _ in part]
        begun = [time - times[user] for time, user, _ in part]
        # An update that starts when a step is taken starts from the new weights.
        versions = [sum(end <= start + 1e-9 for end in ends[: number - 1]) for start in begun]
        assert step.versions.tolist() == versions
        assert step.staleness.tolist() == [number - 1 - version for version in versions]
        assert step.seconds == pytest.approx(ends[number - 1] - (ends[number - 2] if number > 1 else 0.0))


def test_so_many_users_train_at_the_same_time():
    """Of ten users four train at any time: by what arrives, each user's next start is not before its last arrival."""
    rng = np.random.default_rng(1)
    times = rng.uniform(1.0, 5.0, 10)
    now, spans = 0.0, []
    for step in steps(300, times, buffer_size=1, concurrency=4):
        now += step.seconds
        spans.append((now - times[step.users[0]], now, int(step.users[0])))
    for instant in np.linspace(20.0, spans[-1][1] - 20.0, 50):
        busy = [user for start, end, user in spans if start < instant <= end]
        assert len(busy) == 4
        assert len(set(busy)) == 4


def test_equal_users_in_one_buffer_are_synchronous():
    found = steps(5, [2.0] * 6, buffer_size=6)
    assert all(sorted(step.users.tolist()) == list(range(6)) for step in found)
    assert all(not step.staleness.any() and step.seconds == 2.0 and step.in_flight == () for step in found)


def test_a_user_that_starts_again_from_the_same_weights_is_told_apart():
    """The fast user fills the buffer alone."""
    (step,) = steps(1, [1.0, 100.0], buffer_size=3)
    assert (step.users.tolist(), step.versions.tolist(), step.repeats.tolist()) == ([0, 0, 0], [0, 0, 0], [0, 1, 2])


def test_dropouts_of_asynchronous_training_are_replaced():
    found = steps(200, [1.0 + user / 7 for user in range(12)], buffer_size=2, concurrency=3, dropout_probability=0.5)
    assert all(len(step.users) == 2 for step in found)
    # Every second invitation is not answered: as many as are.
    assert np.mean([step.dropped_out for step in found]) == pytest.approx(2.0, abs=0.35)


def test_a_step_passes_if_nobody_answers():
    away = {(1, 0), (1, 1), (2, 0), (2, 1)}
    first, second, third = steps(3, [1.0, 2.5], buffer_size=2, dropped=away)
    assert (len(first.users), first.dropped_out, first.seconds) == (0, 2, 0.0)
    assert (len(second.users), second.dropped_out) == (0, 2)
    assert third.users.tolist() == [0, 0]
    assert third.versions.tolist() == [2, 2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dropout_probability": 1.0}, "1.0 for training.dropout_probability: expected a number >= 0 and < 1$"),
        ({"deadline_s": 0.0}, "invalid value 0.0 for training.deadline_s: expected a number > 0$"),
        ({"deadline_s": float("nan")}, "invalid value nan for training.deadline_s"),
        ({"over_selection": -0.1}, "invalid value -0.1 for training.over_selection: expected a number >= 0$"),
        ({"buffer_size": 0}, "invalid value 0 for training.buffer_size: expected a number >= 1$"),
        ({"concurrency": 3}, "training.concurrency: only asynchronous training has it; set training.buffer_size"),
        ({"staleness_exponent": 1.0}, "training.staleness_exponent: only asynchronous training has it"),
        ({"buffer_size": 2, "deadline_s": 1.0}, "training.deadline_s: asynchronous training has no rounds that"),
        ({"buffer_size": 2, "over_selection": 0.3}, "training.over_selection: asynchronous training has no rounds"),
        ({"buffer_size": 2, "concurrency": 3, "participation": 0.5}, "training.concurrency and training.participation"),
    ],
)  # fmt: skip
def test_invalid_settings(options, message):
    with pytest.raises(FedcastError, match=message):
        Participation(**options)


def test_more_users_than_there_are():
    with pytest.raises(FedcastError, match=r"0.3 for training.over_selection: 13 users would be invited, and 10 hold"):
        Participation(over_selection=0.3).check(10)
    Participation(participation=0.5, over_selection=1.0).check(10)
    with pytest.raises(FedcastError, match="invalid value 11 for training.concurrency: 10 users hold samples"):
        Participation(buffer_size=2, concurrency=11).check(10)


def test_a_deadline_that_everybody_misses():
    with pytest.raises(FedcastError, match=r"invalid value 0.9 for training.deadline_s: every user .* the fastest 1 s"):
        Participation(deadline_s=0.9).check_times(TIMES)
    Participation(deadline_s=1.0).check_times(TIMES)
