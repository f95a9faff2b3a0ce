import numpy as np
import ot
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy, wasserstein_distance

from fedcast.data.skew import (
    average_emd,
    average_js,
    average_kl,
    distribution_shift,
    emd,
    js_divergence,
    kl_divergence,
    mix_distributions,
    skew_of,
    weights,
)
from fedcast.errors import FedcastError

counts_tables = hnp.arrays(
    np.int64, st.tuples(st.integers(2, 12), st.integers(2, 8)), elements=st.integers(0, 40)
).filter(lambda table: table.sum() > 0)


@given(counts_tables)
def test_emd_is_twice_optimal_transport_with_zero_one_cost(counts):
    skew = skew_of(counts)
    zero_one = 1.0 - np.eye(counts.shape[1])
    for user in range(len(counts)):
        cost = ot.emd2(skew.distributions[user], skew.global_distribution, zero_one)
        assert skew.emd[user] == pytest.approx(2 * cost, abs=1e-9)


def test_emd_is_not_the_wasserstein_distance_of_ordered_classes():
    far, near, whole = [1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]
    assert emd(far, whole) == emd(near, whole) == 2
    classes = [0, 1, 2]
    assert wasserstein_distance(classes, classes, far, whole) == 2 * wasserstein_distance(classes, classes, near, whole)


@given(counts_tables)
def test_divergences_agree_with_scipy(counts):
    skew = skew_of(counts)
    for user, distribution in enumerate(skew.distributions):
        kl = kl_divergence(skew.distributions, skew.global_distribution)[user]
        js = js_divergence(skew.distributions, skew.global_distribution)[user]
        held = skew.global_distribution > 0
        assert kl == pytest.approx(entropy(distribution[held], skew.global_distribution[held]), abs=1e-9)
        assert js == pytest.approx(jensenshannon(distribution, skew.global_distribution) ** 2, abs=1e-9)


def test_an_infinite_divergence_is_refused():
    with pytest.raises(FedcastError, match="infinite"):
        kl_divergence([0.5, 0.5], [1.0, 0.0])


def _naive_after(counts, head_of, shared, sent):
    """Data mixed sample by sample in real numbers, then counted."""
    after = counts.astype(float)
    for user, head in enumerate(head_of):
        if head >= 0:
            after[user] = after[user] + shared[head] * sent[head]
    return after


@given(counts_tables, st.randoms(use_true_random=False))
def test_sharing_is_mixing_of_data(counts, random):
    skew = skew_of(counts)
    heads = [user for user in range(len(counts)) if counts[user].sum() and random.random() < 0.3]
    head_of = np.array(
        [
            random.choice(heads) if heads and user not in heads and random.random() < 0.8 else -1
            for user in range(len(counts))
        ]
    )
    shared = np.array([random.randint(0, int(row.sum())) for row in counts])
    after = mix_distributions(skew, head_of, shared)
    mixed = _naive_after(counts, head_of, shared, skew.distributions)
    assert after.sizes == pytest.approx(mixed.sum(axis=1))
    total = counts.sum()
    whole = counts.sum(axis=0) / total
    for weighting, weight in {
        "A": mixed.sum(axis=1) / total,
        "B": mixed.sum(axis=1) / mixed.sum(),
        "C": counts.sum(axis=1) / total,
    }.items():
        rows = np.where(
            mixed.sum(axis=1, keepdims=True) > 0, mixed / np.maximum(mixed.sum(axis=1, keepdims=True), 1), whole
        )
        expected = sum(weight[k] * np.abs(rows[k] - whole).sum() for k in range(len(counts)))
        assert average_emd(skew, after, weighting) == pytest.approx(expected, abs=1e-9)
    assert distribution_shift(after) == pytest.approx(np.abs(mixed.sum(axis=0) / mixed.sum() - whole).sum(), abs=1e-9)


def test_identity_of_weighting_a():
    """nt_k * EMD(mix) = ||n_k delta_k + N_m delta_m||_1, so that an IID head yields nothing under A."""
    counts = np.array([[60, 0, 0], [0, 60, 0], [0, 0, 60], [20, 20, 20]])
    skew = skew_of(counts)
    head_of, shared = np.array([3, 3, 3, -1]), np.array([0, 0, 0, 30])
    after = mix_distributions(skew, head_of, shared)
    assert average_emd(skew, after, "A") == pytest.approx(average_emd(skew))
    assert average_emd(skew, after, "B") < average_emd(skew)
    delta = skew.distributions - skew.global_distribution
    norms = [np.abs(60 * delta[k] + 30 * delta[3]).sum() for k in range(3)] + [np.abs(60 * delta[3]).sum()]
    assert average_emd(skew, after, "A") == pytest.approx(sum(norms) / counts.sum())


def test_a_head_balanced_on_the_other_classes_beats_an_iid_head():
    """The counter-example to the paper's Theorem 1."""
    member = np.eye(10)[0] * 600
    iid_head, complement_head = np.full(10, 60), np.append(0, np.full(9, 600 / 9))
    rest = np.append(5400 - 660, np.full(9, 5400 - 60 - 600 / 9))  # makes the whole uniform
    skew = skew_of([member, iid_head, complement_head, rest])
    assert skew.global_distribution == pytest.approx(np.full(10, 0.1))
    assert skew.emd[1] < skew.emd[2]
    shared = np.full(4, 60.0)
    with_iid = mix_distributions(skew, [1, -1, -1, -1], shared).emd[0]
    with_complement = mix_distributions(skew, [2, -1, -1, -1], shared).emd[0]
    assert with_iid == pytest.approx(1.8 * 600 / 660)
    assert with_complement == pytest.approx((1.8 * 600 - 0.2 * 60) / 660)
    assert with_complement < with_iid


def test_shared_mix_can_differ_from_the_heads_own():
    skew = skew_of([[10, 0], [30, 10]])
    after = mix_distributions(skew, [1, -1], [0, 10], [[0, 0], [0.0, 1.0]])
    assert after.distributions[0] == pytest.approx([0.5, 0.5])
    assert after.distributions[1] == pytest.approx(skew.distributions[1])
    assert after.global_distribution == pytest.approx([0.8, 0.2])


def test_an_empty_user_counts_as_the_whole_and_may_be_a_member():
    skew = skew_of([[4, 0], [0, 4], [0, 0]])
    assert skew.emd[2] == 0
    after = mix_distributions(skew, [-1, -1, 0], [2, 0, 0])
    assert after.sizes[2] == 2
    assert after.emd[2] == 1
    untouched = mix_distributions(skew, [-1, -1, 0], [0, 0, 0])
    assert np.isfinite(untouched.distributions).all()


def test_averages_before_sharing_agree_under_all_weightings():
    skew = skew_of([[4, 1], [0, 7]])
    assert len({round(average_emd(skew, None, weighting), 12) for weighting in "ABC"}) == 1
    assert average_js(skew) == pytest.approx(
        skew.sizes @ js_divergence(skew.distributions, skew.global_distribution) / 12
    )
    assert average_kl(skew) == pytest.approx(
        skew.sizes @ kl_divergence(skew.distributions, skew.global_distribution) / 12
    )
    with pytest.raises(FedcastError, match="A, B or C"):
        weights(skew, skew, "D")


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([[1.0, -2.0]], "user 0, class 1"),
        ([[1.0, np.nan]], "user 0, class 1"),
        ([[0, 0]], "no user holds any data"),
        ([1, 2], "shape"),
    ],
)
def test_bad_counts_are_refused(counts, message):
    with pytest.raises(FedcastError, match=message):
        skew_of(counts)
