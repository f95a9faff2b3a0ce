"""Every parameter of federated training: its meaning, unit, range and default."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from fedcast.scenario.option_tables import ChoiceSection, Count, NotNegative, Positive

# More local epochs train every user to the end of its own data.
_MOST_EPOCHS = 1000
# What training.upload is by default.
FULL_UPLOAD = "full"


class Training(ChoiceSection):
    """Federated training."""

    section: ClassVar[str] = "training"

    model: str = Field("auto", description="model; auto: the usual one of the dataset")
    model_file: str | None = Field(
        None, description="own model: a .py file; model is then a function in it, of a sample's shape and the classes"
    )
    model_weights: Count | None = Field(None, description="weights of the model; unset: counted")
    bits_per_weight: Count = Field(32, description="bits sent for one weight")
    algorithm: str = Field("fedavg", description="federated learning algorithm")
    upload: str = Field(FULL_UPLOAD, description="what users upload: the change of all weights, or less of it")
    rounds: Count = Field(100, description="rounds to train at most")
    local_epochs: Count | tuple[Count, ...] = Field(
        (1, 2, 3, 5, 8), description="local epochs E of a round; a list: a plan chooses one of them"
    )
    batch_size: Count = Field(10, description="samples of a local step")
    learning_rate: Positive = Field(0.2, description="local step size")
    learning_rate_decay: Annotated[float, Field(gt=0, le=1)] = Field(1.0, description="factor per round")
    momentum: Annotated[float, Field(ge=0, lt=1)] = Field(0.0, description="local momentum")
    weight_decay: NotNegative = Field(0.0, description="local weight decay")
    clip_norm: Positive | None = Field(None, description="largest norm of a gradient; unset: no limit")
    augmentation: Literal["none", "crop_flip"] = Field(
        "none", description="crop_flip: training images are shifted by up to 4 pixels and flipped, anew in every epoch"
    )
    server_optimizer: Literal["none", "momentum", "adam", "yogi"] = Field("none", description="optimiser of the server")
    server_learning_rate: Positive = Field(1.0, description="step size of the server")
    server_momentum: Annotated[float, Field(ge=0, lt=1)] = Field(0.9, description="momentum, or Adam's beta 1")
    server_beta2: Annotated[float, Field(ge=0, lt=1)] = Field(0.99, description="Adam's beta 2")
    server_epsilon: Positive = Field(1e-3, description="Adam's epsilon")
    aggregation: Literal["shared", "own", "uniform"] = Field(
        "shared", description="weights of users: sizes after sharing, sizes before (as printed), or equal"
    )
    participation: Annotated[float, Field(gt=0, le=1)] = Field(1.0, description="share of users in a round")
    over_selection: NotNegative = Field(
        0.0, description="users invited beyond those, as a share of them; the first to finish count"
    )
    deadline_s: Positive | None = Field(None, description="updates that take longer do not count; unset: all do")
    dropout_probability: Annotated[float, Field(ge=0, lt=1)] = Field(0.0, description="chance that a user drops out")
    dropout_file: str | None = Field(None, description="who drops out when: .csv with round,user")
    buffer_size: Count | None = Field(
        None, description="asynchronous training (FedBuff): updates of a server step; unset: rounds"
    )
    concurrency: Count | None = Field(
        None, description="asynchronous: users that train at the same time; unset: the share participation"
    )
    staleness_exponent: NotNegative = Field(
        0.5, description="asynchronous: an update t steps old weighs (1 + t)^-exponent"
    )
    user_test: Literal["labels", "own"] = Field(
        "labels",
        description="how users are scored: test samples weighted by the user's labels, or its own (partition natural)",
    )
    fine_tune_epochs: Annotated[int, Field(ge=0, le=_MOST_EPOCHS)] = Field(
        0, description="epochs of each user on its own samples after training, to score personal models; 0: none"
    )
    fine_tune_learning_rate: Positive | None = Field(
        None, description="step size of these; unset: the local one of the last round"
    )
    engine: Literal["auto", "loop", "stacked"] = Field("auto", description="how users are stepped")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="where")
    precision: Literal["float32", "tf32", "bf16", "float64"] = Field(
        "float32",
        description="numbers; tf32: float32 with the matrix units of a GPU; bf16: layers multiply in bfloat16, weights "
        "stay float32",
    )
    compile: Literal["auto", "always", "never"] = Field(
        "auto", description="compile the stacked step; auto: where a run is long enough for it to pay"
    )
    checkpoint_every: Count = Field(10, description="rounds between two checkpoints")

    @field_validator("local_epochs", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        several = list(value) if isinstance(value, list | tuple) else [value]
        whole = all(isinstance(one, int) and not isinstance(one, bool) for one in several)
        if not several or not whole or not all(1 <= one <= _MOST_EPOCHS for one in several):
            expected = f"a whole number from 1 to {_MOST_EPOCHS:,}"
            raise ValueError(f"expected {expected}, or a list of them such as [1, 2, 3, 5, 8]")
        chosen = tuple(sorted(set(several)))
        return chosen if len(chosen) > 1 else chosen[0]

    @property
    def epoch_choices(self) -> tuple[int, ...]:
        """Return the numbers of local epochs that a plan chooses from, ascending."""
        return self.local_epochs if isinstance(self.local_epochs, tuple) else (self.local_epochs,)

    @field_validator("model_file")
    @classmethod
    def _has_a_function(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and info.data.get("model") == "auto":
            raise ValueError("set training.model to the name of a function in it")
        return value
