"""The settings of a training run as a plain dataclass, which needs neither pydantic nor PyTorch."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedcast import registry
from fedcast.errors import FedcastError
from fedcast.participation import Participation, participation_of
from fedcast.training.algorithms import SERVER_OPTIMIZERS, Algorithm
from fedcast.training.uploads import UploadKind

_CHOICES = {
    "aggregation": ("shared", "own", "uniform"),
    "engine": ("auto", "loop", "stacked"),
    "device": ("auto", "cpu", "cuda"),
    "precision": ("float32", "tf32", "bf16", "float64"),
    "compile": ("auto", "always", "never"),
    "server_optimizer": ("none", *SERVER_OPTIMIZERS),
    "augmentation": ("none", "crop_flip"),
}
# Settings that came later: they do not change the hash of runs that do not use them.
_LATER = (
    "upload", "upload_options", "augmentation", "over_selection", "deadline_s", "buffer_size", "concurrency",
    "staleness_exponent", "fine_tune_epochs", "fine_tune_learning_rate",
)  # fmt: skip
MOST_SHIFT = 4  # pixels that augmentation crop_flip moves an image at most


@dataclass(frozen=True)
class TrainingSettings:
    """All that decides how a model is trained.

    The server optimiser is applied to the change of any algorithm that has no server step of its own. Users weigh as
    many samples as they hold after sharing (aggregation ``shared``) or before (``own``), or all the same (``uniform``).

    Example:
        >>> TrainingSettings(algorithm="fedprox").options.prox_weight
        0.01
    """

    algorithm: str | Algorithm = "fedavg"  #: name of a registered algorithm, or an `Algorithm` itself
    options: Any = None  #: options of the algorithm, by default its own defaults
    rounds: int = 100
    local_epochs: int = 1
    batch_size: int = 10
    learning_rate: float = 0.05
    learning_rate_decay: float = 1.0  #: factor of the local learning rate per round
    momentum: float = 0.0
    weight_decay: float = 0.0
    clip_norm: float | None = None  #: largest norm of a gradient, or None for no limit
    augmentation: str = "none"  #: ``crop_flip``: images are shifted by up to 4 pixels and flipped, anew in every epoch
    server_optimizer: str = "none"  #: ``none`` or a key of `SERVER_OPTIMIZERS`
    server_options: Any = None  #: options of the server optimiser, by default its own defaults
    server_learning_rate: float = 1.0  #: step size of the server without an optimiser
    aggregation: str = "shared"
    participation: float = 1.0  #: this and the next, see `fedcast.participation.Participation`
    dropout_probability: float = 0.0
    engine: str = "auto"
    device: str = "auto"
    precision: str = "float32"
    compile: str = "auto"
    checkpoint_every: int = 10
    upload: str = "full"  #: name of a registered kind of upload
    upload_options: Any = None  #: options of the kind of upload, by default its own defaults
    over_selection: float = 0.0
    deadline_s: float | None = None
    buffer_size: int | None = None
    concurrency: int | None = None
    staleness_exponent: float = 0.5
    fine_tune_epochs: int = 0  #: local epochs of each user on its own samples after the last round, for its scores
    fine_tune_learning_rate: float | None = None  #: of these; None: the local learning rate of the last round

    def __post_init__(self) -> None:
        for key, allowed in _CHOICES.items():
            if (value := getattr(self, key)) not in allowed:
                raise FedcastError(f"invalid value {value!r} for training.{key}: expected one of {', '.join(allowed)}")
        self._complete("options", self.implementation.options)
        self._complete("upload_options", self.upload_kind.options)
        self.upload_kind.check_algorithm(self.upload, self.algorithm, self.implementation)
        self.attendance.check_algorithm(self.algorithm, self.implementation)
        if self.server_implementation is not None:
            self._complete("server_options", self.server_implementation.options)
        if self.implementation.server_step is not None and (
            self.server_optimizer != "none" or self.server_learning_rate != 1
        ):
            raise FedcastError(
                f"training.algorithm = {self.algorithm} has a server step of its own: remove training.server_optimizer "
                "and training.server_learning_rate, and set the algorithm's own options"
            )

    def _complete(self, key: str, expected: type[Any]) -> None:
        given = getattr(self, key)
        if given is None:
            object.__setattr__(self, key, expected())
        elif not isinstance(given, expected):
            raise FedcastError(f"training.{key}: {given!r} are the options of another choice; expected {expected}")

    def rate_in(self, number: int) -> float:
        """Return the local learning rate of users that start in a round."""
        return self.learning_rate * self.learning_rate_decay ** (number - 1)

    @property
    def attendance(self) -> Participation:
        """Return how users take part in rounds."""
        return participation_of(self)

    @property
    def implementation(self) -> Algorithm:
        """The algorithm."""
        return self.algorithm if isinstance(self.algorithm, Algorithm) else _named(self.algorithm)

    @property
    def upload_kind(self) -> UploadKind:
        """The kind of upload."""
        return _upload(self.upload)

    @property
    def server_implementation(self) -> Algorithm | None:
        """The algorithm whose server step is the server optimiser; None: there is no optimiser."""
        return _optimizer(self.server_optimizer)


def check_augmentation(augmentation: str, shape: tuple[int, ...]) -> None:
    """Raise an error if samples of that shape cannot be augmented: they need to be images, larger than a shift."""
    if augmentation != "none" and (len(shape) != 3 or min(shape[1:]) <= MOST_SHIFT):
        expected = f"expected images larger than {MOST_SHIFT}×{MOST_SHIFT}, and samples have shape {shape}"
        raise FedcastError(f"invalid value {augmentation!r} for training.augmentation: {expected}; use none")


def _named(algorithm: str) -> Algorithm:
    found: Algorithm = registry.find("algorithm", algorithm).value
    return found


def _upload(name: str) -> UploadKind:
    found: UploadKind = registry.find("upload", name).value
    return found


def _optimizer(name: str) -> Algorithm | None:
    return None if name == "none" else _named(SERVER_OPTIMIZERS[name])


def training_settings(section: Any, local_epochs: int | None = None) -> TrainingSettings:
    """Return the settings that a scenario's section ``training`` describes; settings are returned as they are.

    `local_epochs` is the number that a plan chose; None: the section's, of several the smallest.
    """
    if isinstance(section, TrainingSettings):
        return section
    names = {field.name for field in dataclasses.fields(TrainingSettings)}
    own = names - {"options", "server_options", "upload_options"}
    given: dict[str, Any] = {name: getattr(section, name) for name in own}
    given |= {"options": section.options("algorithm"), "upload_options": section.options("upload")}
    given["local_epochs"] = section.epoch_choices[0] if local_epochs is None else local_epochs
    if (optimizer := _optimizer(section.server_optimizer)) is not None:
        # One key, server_momentum, sets the momentum and β₁.
        keys = {name: f"server_{name}" for name in registry.option_fields(optimizer.options)}
        keys |= {"beta1": "server_momentum"} if "beta1" in keys else {}
        given["server_options"] = optimizer.options(**{name: getattr(section, key) for name, key in keys.items()})
    return TrainingSettings(**given)


def settings_text(settings: TrainingSettings) -> dict[str, str]:
    """Return what decides training as text, by name, to be hashed.

    Settings that came later are left out where they are the defaults, so that earlier runs are resumed and reused.
    """
    usual = TrainingSettings()
    values = {item.name: getattr(settings, item.name) for item in dataclasses.fields(settings)}
    return {name: repr(value) for name, value in values.items() if name not in _LATER or value != getattr(usual, name)}


def settings_to_dict(settings: TrainingSettings) -> dict[str, Any]:
    """Return the settings as plain values for JSON; the algorithm must be a registered one."""
    if not isinstance(settings.algorithm, str):
        raise FedcastError("training.algorithm is not registered under a name: call fedcast.registry.register first")
    return dataclasses.asdict(settings)


def settings_from_dict(values: Mapping[str, Any]) -> TrainingSettings:
    """Return the settings that `settings_to_dict` wrote."""
    plain = dict(values)
    plain["options"] = _named(plain["algorithm"]).options(**plain["options"])
    if "upload" in plain:  # not in packs of older versions
        plain["upload_options"] = _upload(plain["upload"]).options(**plain["upload_options"])
    if (optimizer := _optimizer(plain["server_optimizer"])) is not None:
        plain["server_options"] = optimizer.options(**plain["server_options"])
    return TrainingSettings(**plain)
