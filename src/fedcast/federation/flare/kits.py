"""A project: certificates and start-up kits of the server, the operator and every device, with the files of its owner.

project/project.json          names, host and port
project/provision/            what FLARE writes, with the key of the certificate authority: for the operator alone
project/server/, admin/       kits of the server and of the operator
project/devices/NAME/flare/   kit of a device
project/devices/NAME/device/  trust and consent files, samples, keys, ledger: for the owner of the device alone
"""

from __future__ import annotations

import contextlib
import datetime
import io
import json
import re
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedcast.errors import DataError, FedcastError
from fedcast.federation.device.owner_files import CONSENT_FILE, TRUST_FILE
from fedcast.federation.flare.names import ADMIN, CONTROLLER, DEPLOYER, EXECUTOR, LAUNCHER, ORGANISATION, SERVER
from fedcast.io import write_file
from fedcast.text_files import parse_json, read_text

PROJECT_FILE = "project.json"

_CLIENT_FILE = "fed_client.json"
_NEW_KIT = "Make a new kit, or ask its sender"
_NOT_INSTALLED = 'nvflare is not installed: pip install "fedcast[federation]"'
# What FLARE writes into the kit of a device besides the files of `device_policy`. It reads others too, some of which
# name classes to build or hold code.
_OF_FLARE = {
    "startup": {
        _CLIENT_FILE, "client.crt", "client.key", "rootCA.pem", "start.sh", "stop_fl.sh", "sub_start.sh",
    },
    "local": {
        "authorization.json.default", "log_config.json.default", "privacy.json.sample", "resources.json.default",
    },
}  # fmt: skip

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")
_LOOPBACK = ("localhost", "127.0.0.1")
# A device whose clock is late must accept a certificate that was made a moment ago.
_VALID_BEFORE = datetime.timedelta(days=1)

_NO_RIGHT = {"byoc": "none", "shell_commands": "none", "server-predeployed-flwr": "none", "clone_job": "none"}
_RIGHTS = {"submit_job": "any", "manage_job": "any", "view": "any", "operate": "any", "download_job": "any"}

_TRUST_TEMPLATE = """\
# Devices that this one exchanges samples with. Compare each fingerprint with the owner of that device, by voice or in
# person, not by way of the server: `fedcast federation keys FOLDER` prints it.
#
# [other-device]
# fingerprint = "64 hexadecimal digits"
# rate_bps = 2e7    # of the link to it; without it the link is measured
"""
_CONSENT_TEMPLATE = """\
# What this device agrees to. As it stands it sends no samples, and takes samples of trusted heads.
kinds = []              # ["raw"]: it may send samples
max_ratio = 0.0         # share of its samples that others may ever receive
# max_received = 100000   # samples that it takes from one head
# counts_epsilon = 1.0    # class counts are sent with noise
# epsilon_budget = 4.0    # epsilon of everything that it ever releases together; private kinds need it
# delta = 1e-5            # delta that belongs to the budget
# min_batch_size = 10     # it does not train with smaller batches
"""


@dataclass(frozen=True)
class Project:
    """Address and participants of a project."""

    folder: Path
    devices: tuple[str, ...]
    host: str
    port: int

    @property
    def server(self) -> Path:
        """The kit of the server."""
        return self.folder / "server"

    @property
    def admin(self) -> Path:
        """The kit of the operator."""
        return self.folder / "admin"

    def kit(self, name: str) -> Path:
        """Return the folder of a device, with its kit and its own files."""
        if name not in self.devices:
            raise FedcastError(f"there is no device {name!r}; there are {', '.join(self.devices)}")
        return self.folder / "devices" / name

    def own_files(self, name: str) -> Path:
        """Return the folder with the files of a device's owner."""
        return self.kit(name) / "device"


def load_project(folder: str | Path) -> Project:
    """Read a project that `make_project` wrote."""
    folder = Path(folder).resolve()
    try:
        content = parse_json(read_text(folder / PROJECT_FILE), str(folder / PROJECT_FILE))
        return Project(folder, tuple(content["devices"]), str(content["host"]), int(content["port"]))
    except FileNotFoundError:
        raise FedcastError(f"{folder}: there is no project; `fedcast federation init {folder}` makes one") from None
    except (ValueError, KeyError, TypeError) as error:
        raise FedcastError(f"{folder / PROJECT_FILE}: not a project: {error!r}") from None


def make_project(folder: str | Path, devices: list[str], host: str = "localhost", port: int = 8002) -> Project:
    """Make certificates and kits; a server whose host is localhost listens on the loopback interface alone."""
    folder = Path(folder).resolve()
    if (folder / PROJECT_FILE).exists():
        raise FedcastError(f"{folder}: there is a project already; use another folder")
    for name in devices:
        if not _NAME.fullmatch(name) or name in (SERVER, host):
            expected = "expected lower-case letters, digits and -, at most 32"
            raise FedcastError(f"invalid value {name!r} for the name of a device: {expected}")
    if not devices or len(set(devices)) < len(devices):
        raise FedcastError(f"invalid names of devices {devices}: expected at least one, all different")
    project = Project(folder, tuple(devices), host, port)
    built = _provision(project)
    shutil.copytree(built / host, project.server)
    shutil.copytree(built / ADMIN, project.admin)
    _write_policy(project.server, server_policy(project.server))
    for name in devices:
        shutil.copytree(built / name, project.kit(name) / "flare")
        _write_policy(project.kit(name) / "flare", device_policy())
        own = project.own_files(name)
        own.mkdir()
        own.chmod(0o700)
        (own / TRUST_FILE).write_text(_TRUST_TEMPLATE, encoding="utf-8")
        (own / CONSENT_FILE).write_text(_CONSENT_TEMPLATE, encoding="utf-8")
    content = {key: value for key, value in asdict(project).items() if key != "folder"}
    write_file(folder / PROJECT_FILE, json.dumps(content, indent=1))
    return project


def device_policy() -> dict[str, Any]:
    """Return the local files of a device's kit that decide what FLARE may do there."""
    common = "nvflare.app_common"
    components = {
        "resource_manager": f"{common}.resource_managers.passthrough_resource_manager.PassthroughResourceManager",
        "process_launcher": LAUNCHER,
        "app_deployer": DEPLOYER,
    }
    resources = {
        "client": {"retry_timeout": 30, "compression": "Gzip"},
        "components": [{"id": name, "path": path, "args": {}} for name, path in components.items()],
    }
    try:
        from nvflare.fuel.utils.log_utils import default_log_dict
    except ImportError:
        raise FedcastError(_NOT_INSTALLED) from None
    # A file of log settings can name any class. FLARE's own stands beside this one, which takes its place.
    return {**_policy(EXECUTOR, resources), "log_config.json": dict(default_log_dict)}


def server_policy(kit: Path) -> dict[str, Any]:
    """Return the same for the server; jobs are stored in its kit."""
    common = "nvflare.app_common"
    storage = f"{common}.storages.filesystem_storage.FilesystemStorage"
    launcher = f"{common}.job_launcher.server_process_launcher.ServerProcessJobLauncher"
    jobs = {"uri_root": str(kit / "jobs"), "job_store_id": "job_store"}
    snapshots = {"path": storage, "args": {"root_dir": str(kit / "snapshots"), "uri_root": "/"}}
    resources = {
        "servers": [
            {"admin_storage": "transfer", "max_num_clients": 1000, "heart_beat_timeout": 60, "admin_timeout": 10.0,
             "download_job_url": ""},
        ],
        "snapshot_persistor": {
            "path": f"{common}.state_persistors.storage_state_persistor.StorageStatePersistor",
            "args": {"uri_root": "/", "storage": snapshots},
        },
        "components": [
            {"id": "job_scheduler", "path": f"{common}.job_schedulers.job_scheduler.DefaultJobScheduler",
             "args": {"max_jobs": 1}},
            {"id": "job_manager", "path": "nvflare.apis.impl.job_def_manager.SimpleJobDefManager", "args": jobs},
            {"id": "job_store", "path": storage},
            {"id": "process_launcher", "path": launcher, "args": {}},
        ],
    }  # fmt: skip
    return _policy(CONTROLLER, resources)


def device_name(folder: str | Path) -> str:
    """Return the name that a device has in its kit, whatever its folder is called."""
    config = Path(folder) / "flare" / "startup" / _CLIENT_FILE
    try:
        return str(parse_json(read_text(config), str(config))["client"]["fqsn"])
    except (OSError, KeyError, TypeError):
        raise FedcastError(f"{folder}: not the folder of a device: {config} cannot be read") from None


def check_device_kit(kit: Path) -> None:
    """Raise an error if a kit would let the server do more than fedcast expects, however it came to be so."""
    policy = device_policy()
    for folder, known in _OF_FLARE.items():
        for file in sorted((kit / folder).iterdir()) if (kit / folder).is_dir() else []:
            if file.name not in known | (policy.keys() if folder == "local" else set()):
                raise FedcastError(f"{file}: not a file that fedcast writes; it might bring code. {_NEW_KIT}")
    for name, expected in policy.items():
        if _content(kit / "local" / name) != expected:
            raise FedcastError(
                f"{kit / 'local' / name}: not as fedcast writes it, so that the server might run code here or read "
                f"files. {_NEW_KIT}"
            )
    found = _content(kit / "startup" / _CLIENT_FILE)
    if not _is_connection(found):
        raise FedcastError(f"{kit / 'startup' / _CLIENT_FILE}: not as fedcast writes it. {_NEW_KIT}")


def _is_connection(found: Any) -> bool:
    """Return whether the settings of a client are a server and a name, with mutual TLS, and nothing else."""
    try:
        server, name = found["servers"][0], found["client"]["fqsn"]
        target, identity = server["service"]["target"], server["identity"]
    except (KeyError, TypeError, IndexError):
        return False
    certificates = {"ssl_private_key": "client.key", "ssl_cert": "client.crt", "ssl_root_cert": "rootCA.pem"}
    expected = {
        "format_version": 2,
        "servers": [{"name": "fedcast", "service": {"target": target, "scheme": "grpc"}, "identity": identity}],
        "client": {**certificates, "fqsn": name, "is_leaf": True, "connection_security": "mtls"},
    }
    return bool(found == expected) and all(isinstance(text, str) for text in (target, identity, name))


def _content(path: Path) -> Any:
    """Return the content of a JSON file, None if there is none."""
    try:
        return parse_json(read_text(path), path.name)
    except (OSError, DataError):
        return None


def _policy(job_class: str, resources: dict[str, Any]) -> dict[str, Any]:
    """Return the files of a site: nobody may send code or run shell commands, and a job may use one class alone."""
    rights = {"project_admin": {**_RIGHTS, **_NO_RIGHT}}
    allowed = {"class_list_enforcement_mode": "enforce", "class_allow_list": [job_class], "allow_log_streaming": False}
    return {
        "authorization.json": {"format_version": "1.0", "permissions": rights},
        "resources.json": {"format_version": 2, **allowed, **resources},
    }


def _write_policy(kit: Path, policy: dict[str, Any]) -> None:
    for name, content in policy.items():
        write_file(kit / "local" / name, json.dumps(content, indent=1))


def _provision(project: Project) -> Path:
    """Let FLARE make certificates and kits; return the folder that it wrote."""
    try:
        from nvflare.lighter.constants import CtxKey
        from nvflare.lighter.impl.cert import CertBuilder
        from nvflare.lighter.impl.signature import SignatureBuilder
        from nvflare.lighter.impl.static_file import StaticFileBuilder
        from nvflare.lighter.impl.workspace import WorkspaceBuilder
        from nvflare.lighter.provision import prepare_project
        from nvflare.lighter.provisioner import Provisioner
    except ImportError:
        raise FedcastError(_NOT_INSTALLED) from None

    class EarlierCertificates(CertBuilder):  # type: ignore[misc]
        @staticmethod
        def _generate_cert(*arguments: Any, **options: Any) -> Any:
            now = datetime.datetime.now(datetime.UTC)
            start = (options.pop("not_valid_before", None) or now) - _VALID_BEFORE
            return CertBuilder._generate_cert(*arguments, not_valid_before=start, **options)

    hosts = list(_LOOPBACK) if project.host in _LOOPBACK else [project.host]
    site = {"org": ORGANISATION}
    server = {"name": project.host, "type": "server", "fed_learn_port": project.port, "admin_port": project.port,
              "default_host": project.host, "host_names": hosts, **site}  # fmt: skip
    admin = {"name": ADMIN, "type": "admin", "role": "project_admin", **site}
    clients = [{"name": name, "type": "client", **site} for name in project.devices]
    described = {"api_version": 3, "name": "fedcast", "description": "", "participants": [server, *clients, admin]}
    builders = [
        WorkspaceBuilder(template_file=["master_template.yml"]),
        StaticFileBuilder(config_folder="config", scheme="grpc"),
        EarlierCertificates(),
        SignatureBuilder(),
    ]
    root = project.folder / "provision"
    root.mkdir(parents=True)
    root.chmod(0o700)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        context = Provisioner(str(root), builders).provision(prepare_project(described))
    if context.get(CtxKey.BUILD_ERROR):
        raise FedcastError(f"{root}: FLARE could not make the kits: {said.getvalue().strip()}")
    return Path(context[CtxKey.CURRENT_PROD_DIR])
