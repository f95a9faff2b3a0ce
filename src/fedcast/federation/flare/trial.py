"""A local trial: the users of a scenario as devices on this machine, which trust each other."""

from __future__ import annotations

from pathlib import Path

from fedcast.data import load_dataset, populate
from fedcast.errors import FedcastError
from fedcast.federation.device.device import DATA_FOLDER, KEYS_FILE
from fedcast.federation.device.keys import load_or_create_keys
from fedcast.federation.device.owner_files import CONSENT_FILE, TRUST_FILE
from fedcast.federation.device.samples import write_samples
from fedcast.federation.flare.kits import Project
from fedcast.scenario import Scenario


def fill_trial(project: Project, scenario: Scenario, data_dir: str | Path | None = None) -> None:
    """Give every device the samples of a user, keys, consent to share what the scenario allows, and trust in all.

    Only a trial may do this: on real hosts keys are drawn on the device, and its owner writes trust and consent.
    """
    users = scenario.data.num_users
    if users != len(project.devices):
        devices = len(project.devices)
        raise FedcastError(f"invalid value {users} for data.num_users: the project has {devices} devices")
    dataset = load_dataset(scenario.data, data_dir)
    population = populate(dataset, scenario.data, scenario.seed)
    assert population.dataset is not None
    assert population.assignment is not None
    consent = f'kinds = ["{scenario.sharing.kind}"]\nmax_ratio = {scenario.allocation.max_sharing_ratio}\n'
    known = {}
    for user, name in enumerate(project.devices):
        own = project.own_files(name)
        write_samples(own / DATA_FOLDER, population.dataset, population.assignment.of(user))
        (own / CONSENT_FILE).write_text(consent, encoding="utf-8")
        known[name] = load_or_create_keys(own / KEYS_FILE).public.fingerprint
    for name in project.devices:
        tables = [f'[{other}]\nfingerprint = "{digits}"\n' for other, digits in known.items() if other != name]
        (project.own_files(name) / TRUST_FILE).write_text("\n".join(tables), encoding="utf-8")
