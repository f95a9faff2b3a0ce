"""The exported Flower app, run by Flower in an environment of its own: its packages clash with those of fedcast."""

import csv
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from fedcast import export_run, load_run, load_scenario, run_scenario

pytestmark = pytest.mark.slow  # installs Flower

FLOWER = "flwr[simulation]==1.41.*"
SCENARIO = [
    "data.num_users=8",
    "allocation.method=fixed",
    "clustering.rule=gain",
    "training.model=mlp",
    "training.local_epochs=2",
    "training.rounds=3",
    "training.participation=0.75",
    "training.precision=float64",
]


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Programs and variables of an environment with Flower and PyTorch; no telemetry, nothing but loopback."""
    folder = tmp_path_factory.mktemp("flower")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
    pip = [sys.executable, "-m", "pip", "--python", folder / "env/bin/python", "install", "--quiet", "--no-compile"]
    installed = subprocess.run([*pip, FLOWER], capture_output=True, text=True, check=False)
    if installed.returncode:
        pytest.skip(f"Flower cannot be installed here: {installed.stderr.strip().splitlines()[-1]}")
    # PyTorch is that of this environment, searched after Flower's own packages: installing it again takes minutes.
    (packages,) = (folder / "env/lib").glob("python*/site-packages")
    (packages / "with_torch.pth").write_text(str(Path(torch.__file__).parent.parent))
    return {
        "PATH": f"{folder}/env/bin:{os.environ['PATH']}",
        "HOME": str(folder),
        "FLWR_HOME": str(folder / "home"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "OMP_NUM_THREADS": "1",
    }


@pytest.fixture
def superlink(environment, tmp_path):
    """Start Flower's server on a free port of this machine, as the connection of `flwr run`, and stop it afterwards."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    home = tmp_path / "home"
    home.mkdir()
    connection = f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
    (home / "config.toml").write_text(connection)
    variables = environment | {"FLWR_HOME": str(home)}
    command = ["flower-superlink", "--insecure", "--simulation", "--host", "127.0.0.1", "--port", str(port)]
    program = f"{environment['PATH'].partition(':')[0]}/{command[0]}"
    with (tmp_path / "superlink.log").open("w") as log:
        server = subprocess.Popen([program, *command[1:]], env=variables, stdout=log, stderr=log)
        try:
            for _ in range(300):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.2)
            yield variables
        finally:
            server.terminate()
            server.wait(60)


def test_the_flower_app_finds_the_accuracy_of_fedcast(superlink, tmp_path):
    run = run_scenario(load_scenario(base="digits", overrides=SCENARIO), tmp_path / "runs")
    folder = export_run(run, tmp_path / "exported", flower=True)
    program = f"{superlink['PATH'].partition(':')[0]}/flwr"
    nodes = "num-supernodes=8 client-resources-num-cpus=1 init-args-num-cpus=1"
    done = subprocess.run(
        [program, "run", folder / "flower", "--stream", "--federation-config", nodes],
        env=superlink, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert (folder / "history_flower.csv").exists(), done.stdout + done.stderr
    with (folder / "history_flower.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    history = load_run(run).history
    assert len(set(history.column("accuracy"))) > 2, "a curve that does not move shows nothing"
    assert [float(row["accuracy"]) for row in rows] == pytest.approx(history.column("accuracy"), abs=1e-9)
    assert [float(row["test_loss"]) for row in rows] == pytest.approx(history.column("test_loss"), abs=1e-9)
    final, found = (torch.load(folder / f"weights_{name}.pt", weights_only=True) for name in ("final", "flower"))
    for name in final:
        torch.testing.assert_close(found[name], final[name], rtol=0, atol=1e-9)
