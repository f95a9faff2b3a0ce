"""Samples with differential privacy between devices: secure noise, the owner's budget, and what the server may ask."""

import numpy as np
import pytest

from fedcast.federation import FederationRun, RejectedError
from fedcast.federation.device import device as device_module
from fedcast.runs import load_runs
from fedcast.sharing import gaussian_mu, total_epsilon
from tests.federation.devices import Network
from tests.federation.test_phases import federation, scenario_with

CONSENT = 'kinds = ["prototypes", "synthetic"]\nmax_ratio = 0.5\nepsilon_budget = 5.0\n'


@pytest.fixture
def net(tmp_path):
    return Network(tmp_path, ["head", "near", "far"], head=CONSENT)


def sent(net, member="near"):
    files = net.devices[member].inbox.files()
    return np.concatenate([np.fromfile(file, net.devices[member].own.format.record) for file in files])


def share(net, kind="prototypes", run="run-1", **options):
    for name in net.devices:
        net.devices[name].alive({"run": run})
    return net.share("head", "near", "far", count=12, kind=kind, options=options, run=run)


@pytest.mark.parametrize("kind", ["prototypes", "synthetic"])
def test_members_receive_generated_samples_that_are_counted_once(net, kind):
    answer = share(net, kind, epsilon=4.0)
    assert (answer["count"], answer["delivered"]) == (12, ["near", "far"])
    assert answer["mu"] == gaussian_mu(4.0, 1e-5)
    records, own = sent(net), net.devices["head"].own
    assert len(records) == 12
    held = {image.tobytes() for image in own.inputs}
    assert not any(record["input"].tobytes() in held for record in records)
    ledger = net.devices["head"].ledger
    assert ledger.epsilon_spent() == pytest.approx(4.0), "two members, one release"
    assert ledger.num_revealed() == 0
    assert net.events("head", "released")
    # The same request again sends what was sent, and spends nothing.
    share(net, kind, epsilon=4.0)
    assert ledger.epsilon_spent() == pytest.approx(4.0)
    assert np.array_equal(sent(net), records)


def test_noise_does_not_follow_from_the_seed_of_the_server(net, monkeypatch):
    """The same request in two runs, which differ in nothing that the server knows."""
    share(net, epsilon=1.0)
    first = sent(net)
    share(net, run="run-2", epsilon=1.0)
    assert not np.array_equal(sent(net)["input"], first["input"])
    monkeypatch.setattr(device_module, "secure_noise", lambda exact: exact)
    share(net, run="run-3", epsilon=1.0)
    quiet = sent(net)
    share(net, run="run-4", epsilon=1.0)
    assert np.array_equal(sent(net), quiet), "all that differed was the noise"


def test_the_budget_holds_over_runs(net):
    share(net, epsilon=4.0)
    ledger = net.devices["head"].ledger
    with pytest.raises(RejectedError, match=r"budget is spent: ε = 4 of 5"):
        share(net, run="run-2", epsilon=4.0)
    assert ledger.epsilon_spent() == pytest.approx(4.0)
    share(net, "synthetic", run="run-3", epsilon=1.0)
    assert 4 < ledger.epsilon_spent() == total_epsilon(ledger.releases(), 1e-5) < 5
    described = net.devices["head"].describe({"run": "run-4"}, net.send)
    assert described["epsilon_budget"] == 5
    assert described["mu_spent"] == pytest.approx(np.hypot(gaussian_mu(4.0, 1e-5), gaussian_mu(1.0, 1e-5)))


@pytest.mark.parametrize(("kind", "options", "message"), [
    ("mixed", {}, "'mixed' for kind: devices share raw, prototypes, synthetic"),
    ("work_control", {}, "for kind"),
    ("nothing", {}, "for kind"),
    ("prototypes", {"epsilon": 0.0}, "invalid options of prototypes: .*greater than 0"),
    ("prototypes", {"epsilon": "1"}, "invalid options"),
    ("prototypes", {"unknown": 1}, "invalid options"),
    ("prototypes", [1], "invalid options"),
    ("synthetic", {"features": "network", "network_file": "/etc/passwd"}, "network_file names a file"),
])  # fmt: skip
def test_what_a_device_does_not_share(net, kind, options, message):
    with pytest.raises(RejectedError, match=message):
        net.share("head", "near", kind=kind, options=options)
    assert net.devices["head"].ledger.releases() == []


def test_kinds_need_consent_and_a_budget(tmp_path):
    for place, consent in enumerate(('kinds = ["raw"]\nmax_ratio = 0.5\nepsilon_budget = 9.0\n',
                                     'kinds = ["prototypes"]\nmax_ratio = 0.5\n')):  # fmt: skip
        net = Network(tmp_path / str(place), ["head", "near"], head=consent)
        if place == 0:
            assert net.share("head", "near", kind="prototypes")["count"] == 0
            assert "prototypes" in net.events("head", "refused")[0]
        else:
            with pytest.raises(RejectedError, match="no epsilon_budget"):
                net.share("head", "near", kind="prototypes")
        assert net.devices["head"].ledger.releases() == []


def test_a_release_is_counted_also_if_the_device_is_killed_before_it_is_sent(net, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(device_module, "seal", killed)
        with pytest.raises(KeyboardInterrupt):
            share(net, epsilon=3.0)
    assert net.received("near") == 0
    net.start("head")
    share(net, epsilon=3.0)
    assert len(net.devices["head"].ledger.releases()) == 1, "the first one was never sent"
    assert net.received("near") == 12


def test_a_federation_shares_generated_samples(tmp_path, monkeypatch):
    consent = 'kinds = ["prototypes"]\nmax_ratio = 1\nepsilon_budget = 4.5\n'
    monkeypatch.setattr("tests.federation.test_phases.start_devices.__defaults__", (consent,))
    scenario = scenario_with(sharing__kind="prototypes", sharing__prototypes__epsilon=4.0, clustering__rule="daca")
    run, population, names = federation(tmp_path, scenario)
    result = run.run()
    heads = result.plan.heads
    assert len(heads)
    assert sum(result.state.samples) > population.sizes.sum()
    (stored,) = load_runs(run.folder)
    assert str(stored.privacy) == "ε = 4, δ = 1e-05, secure noise"
    assert stored.facts.largest_revealed_share == 0
    devices = run.transport.devices
    for user, name in enumerate(names):
        assert (devices[name].ledger.epsilon_spent() > 0) == (user in heads)
    # In another run nobody can afford it again, and the plan knows: 4 and 4 are more than 4.5.
    again = FederationRun(tmp_path / "second", run.transport, scenario)
    assert set(again.run().plan.heads).isdisjoint(heads)
