"""Every parameter of a scenario: its meaning, unit, range and default.

The unit is the end of the name (`_s`, `_j`, `_hz`, `_bps`, `_m`, `_w`, `_db`, `_dbm`). A default number stands here, in
`fedcast.scenario.training_section`, or in the options of a choice.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from fedcast.formatting import html_table, percent, pluralize, setting_text, short_repr
from fedcast.scenario.option_tables import ChoiceSection, Count, NotNegative, Positive, Section, Share
from fedcast.scenario.training_section import Training

# What training.model = "auto" stands for.
MODEL_OF_DATASET = {
    "digits": "small_cnn",
    "cifar10": "vgg16",
    "cifar100": "resnet18",
    "shakespeare": "lstm",
    "tiny_shakespeare": "lstm",
}
USUAL_MODEL = "cnn"

# What clustering.rule is where a plan chooses the rule.
BEST_RULE = BEST_KIND = "best"
# Kinds of choices of which a plan can make the best one.
LEFT_TO_PLAN = ("clustering", "sharing")


class Data(ChoiceSection):
    """The dataset and its division among the users."""

    section: ClassVar[str] = "data"

    dataset: str = Field("digits", description="name of a dataset (`fedcast datasets` lists them)")
    num_users: Annotated[int, Field(ge=1, le=10**7)] = Field(100, description="users K")
    partition: str = Field("label_skew", description="how the dataset is divided among the users")
    descriptor: Literal["classes", "values", "clusters"] = Field(
        "classes", description="what the planner sees: labels (next characters), input values or feature clusters"
    )
    counts_epsilon: Annotated[float, Field(ge=1e-6, le=500)] | None = Field(
        None, description="the planner sees class counts with noise, ε-differentially private; unset: exact ones"
    )
    value_bins: Annotated[int, Field(ge=1, le=10**5)] = Field(
        16, description="descriptor values: bins of the histogram"
    )
    value_min: float = Field(-1.0, description="descriptor values: lower end of the histogram")
    value_max: float = Field(2.0, validate_default=True, description="descriptor values: upper end of the histogram")
    feature_clusters: Count = Field(16, description="descriptor clusters: number of k-means clusters")
    bits_per_sample: Positive | None = Field(None, description="bits of one shared sample; unset: the dataset's own")

    @field_validator("counts_epsilon")
    @classmethod
    def _of_classes(cls, value: float | None, info: ValidationInfo) -> float | None:
        if value is not None and info.data.get("descriptor", "classes") != "classes":
            raise ValueError("noise is added to class counts only; it needs descriptor = classes")
        return value

    @field_validator("value_max")
    @classmethod
    def _above_value_min(cls, value: float, info: ValidationInfo) -> float:
        if value <= info.data.get("value_min", value - 1):
            raise ValueError(f"it must be above value_min = {info.data['value_min']}")
        return value


class Geometry(Section):
    """Positions of users and base stations."""

    layout: Literal["auto", "cell", "density"] = Field(
        "auto",
        description="cell: one cell whatever K; density: area grows with K; auto: cell up to users_per_cell users",
    )
    cell_radius_m: Positive = Field(1000.0, description="radius of a cell")
    users_per_cell: Count = Field(100, description="users in a disc of one cell radius, kept as K grows")
    user_height_m: Positive = Field(1.5, description="antenna height of a user")
    base_station_height_m: Positive = Field(25.0, description="antenna height of a base station")
    positions_file: str | None = Field(
        None, description="own positions: .csv, .parquet or .xlsx with user,x_m,y_m or user,longitude,latitude"
    )
    base_stations_file: str | None = Field(
        None, description="own base stations, with x_m,y_m or longitude,latitude; each user has the nearest"
    )


class Sidelink(Section):
    """The radio link between two users."""

    model: Literal["four_state", "los_only", "umi", "uma", "v2x_urban", "macro"] = Field(
        "four_state", description="path loss"
    )
    carrier_hz: Positive = Field(28e9, description="carrier frequency")
    bandwidth_hz: Positive = Field(1e9, description="bandwidth of a multicast")
    power_w: Positive = Field(0.01, description="transmit power of a head")
    noise_density_dbm_hz: float = Field(-174.0, description="thermal noise density N0")
    noise_figure_db: NotNegative = Field(0.0, description="receiver noise figure")
    tx_gain_db: float = Field(12.0, description="array gain of the head")
    rx_gain_db: float = Field(12.0, description="array gain of a member")
    interference: Literal["noise_rise", "concurrent"] = Field(
        "noise_rise", description="a fixed rise of the noise, or the sum over all heads that send at once"
    )
    noise_rise_db: NotNegative = Field(3.0, description="interference as a rise of the noise")
    shadowing: Literal["margin", "drawn"] = Field("margin", description="a fixed margin, or one draw for each pair")
    shadow_margin_db: NotNegative = Field(4.0, description="shadowing margin: loss taken off every link")
    state_mode: Literal["mean_sinr", "mean_rate", "sampled"] = Field(
        "mean_sinr", description="average the SINR over the states (as printed), average the rate, or draw a state"
    )
    fading: Literal["none", "ergodic"] = Field("none", description="small-scale fading")
    reference_loss_db: float = Field(32.4, description="loss at 1 m and 1 GHz")
    los_exponent: Positive = Field(2.1, description="path-loss exponent in line of sight")
    nlos_exponent: Positive = Field(3.19, description="path-loss exponent without line of sight")
    blockage_loss_db: NotNegative = Field(20.0, description="extra loss behind a person")
    blocker_density_per_m2: NotNegative = Field(0.01, description="people per square metre")
    blocker_radius_m: Positive = Field(0.3, description="radius of a person")
    blocker_height_m: Positive = Field(1.7, description="height of a person")
    min_distance_m: Positive = Field(1.0, description="shorter distances count as this")
    min_rate_bps: NotNegative = Field(3.5e5, description="threshold v_th: slower links are not used")


class Cellular(Section):
    """The links between users and their base station."""

    path_loss: Literal["macro", "uma", "umi"] = Field("macro", description="path loss")
    carrier_hz: Positive = Field(2e9, description="carrier frequency of uma and umi; macro needs none")
    downlink_bandwidth_hz: Positive = Field(20e6, description="bandwidth of the broadcast")
    base_station_power_w: Positive = Field(1.0, description="transmit power of a base station")
    subcarrier_bandwidth_hz: Positive = Field(1e6, description="bandwidth of one uplink subcarrier")
    subcarriers: Count = Field(10, description="uplink subcarriers R of a cell")
    uplink: Literal["parallel", "waves", "fractional"] = Field(
        "parallel", description="more users than subcarriers: all at once (the paper), R at a time, or split bandwidth"
    )
    noise_density_dbm_hz: float = Field(-174.0, description="thermal noise density N0")
    noise_figure_db: NotNegative = Field(0.0, description="receiver noise figure")
    noise_rise_db: NotNegative = Field(3.0, description="interference as a rise of the noise")
    min_distance_m: Positive = Field(35.0, description="shorter distances count as this")
    fading: Literal["ergodic", "truncated", "nakagami", "awgn"] = Field(
        "ergodic", description="what the expected delay is taken over"
    )
    outage: Annotated[float, Field(gt=0, lt=1)] = Field(0.01, description="truncated: share of fades left out")
    nakagami_shape: Annotated[float, Field(gt=1)] = Field(2.0, description="nakagami: shape m of the distribution")
    snr_db: float | None = Field(None, description="one SNR for every user and both ways, instead of the geometry")

    @field_validator("fading", mode="before")
    @classmethod
    def _refuse_literal_rayleigh(cls, value: Any) -> Any:
        if value in ("rayleigh", "literal"):
            raise ValueError(
                "the expected delay E[M/v] is infinite under Rayleigh fading at every SNR, since the rate falls to 0 "
                "with positive density there; use ergodic, truncated, nakagami or awgn"
            )
        return value


class Trust(Section):
    """Social closeness of two users, in [0, 1]."""

    generator: Literal["uniform", "community", "contact", "distance"] = Field("uniform", description="how it is drawn")
    min_closeness: Share = Field(0.5, description="threshold e_th: users less close do not share")
    communities: Count = Field(5, description="community: number of groups")
    inside_beta: tuple[Positive, Positive] = Field(
        (6.0, 2.0), strict=False, description="community: Beta parameters within a group"
    )
    across_beta: tuple[Positive, Positive] = Field(
        (2.0, 6.0), strict=False, description="community: Beta parameters between groups"
    )
    contact_shape: Positive = Field(4.43, description="contact: shape of the Gamma distribution of contact rates")
    contact_scale_s: Positive = Field(1088.0, description="contact: inverse scale of that distribution")
    contact_time_s: Positive = Field(186.0, description="contact: time within which a contact counts")
    distance_scale_m: Positive = Field(300.0, description="distance: how fast closeness falls")
    distance_share: Share = Field(0.5, description="distance: share of closeness that distance explains")
    links_file: str | None = Field(
        None,
        description="own links, as a table user_a,user_b,rate_bps,closeness; replaces radio and trust",
    )


class Devices(Section):
    """Computing and energy of the users' devices."""

    max_frequency_hz: Positive = Field(1.2e9, description="highest CPU frequency f_max")
    cycles_per_sample: Positive = Field(2.5e5, description="CPU cycles L per sample and epoch")
    energy_coefficient: Positive = Field(1e-28, description="energy per cycle and squared frequency")
    energy_budget_j: Positive = Field(0.05, description="energy of a user per round")
    power_w: Positive = Field(0.01, description="transmit power of the upload")
    devices_file: str | None = Field(None, description="own devices, one row per user: .csv, .parquet or .xlsx")


class ClusteringSettings(ChoiceSection):
    """Clustering: the heads and their members."""

    section: ClassVar[str] = "clustering"

    rule: str = Field(BEST_RULE, description="clustering rule; best: a plan tries all and keeps the fastest")
    sharing_ratio: Share = Field(0.1, description="share of a head's samples assumed while clustering")
    weighting: Literal["A", "B", "C"] = Field(
        "B", description="weights of the average EMD after sharing: A as printed, B proper average, C sizes before"
    )
    composition: Literal["auto", "own", "balanced"] = Field(
        "auto",
        description="what a head shares: a random part, or as equal over classes as it can; auto: the rule's own",
    )
    max_passes: Count = Field(5, description="how often clustering and allocation are repeated at most")


class Rounds(Section):
    """Rounds to the target accuracy as a function of skew and local work."""

    target_accuracy: Annotated[float, Field(gt=0, lt=1)] = Field(0.9, description="accuracy to be reached")
    form: Literal["auto", "law", "paper", "theory", "extended"] = Field(
        "auto",
        description="by D and local work (law), 1/(b1 D^2 + b2 D + b3), 1/(b - D^2), or log-linear in D and the shift; "
        "auto: law if the fit has it, else paper",
    )
    fit: str = Field(
        "auto",
        description="name of a shipped fit, or the path of one made by `fedcast fit-rounds`; auto: the dataset's, else "
        "mnist",
    )
    round_scale: Positive = Field(100.0, description="rounds per unit of the paper's scaled rounds")
    beta_samples: Annotated[int, Field(ge=1, le=10**5)] = Field(200, description="samples of the fit's uncertainty")


class Allocation(ChoiceSection):
    """Allocation of sharing ratios and CPU frequencies."""

    section: ClassVar[str] = "allocation"

    method: str = Field("jfvo", description="allocation method")
    max_sharing_ratio: Share = Field(0.2, description="no head shares more of its samples")
    max_asr: Share | None = Field(None, description="limit of the average sharing ratio; unset: none")
    initial_ratio: Share = Field(0.1, description="where the search starts")
    infeasible_users: Literal["refuse", "exclude"] = Field(
        "refuse", description="users whose upload alone exceeds the energy budget: stop, or train without them"
    )


class SharingSettings(ChoiceSection):
    """Kind of data that heads send to their members."""

    section: ClassVar[str] = "sharing"

    kind: str = Field("raw", description="kind of sharing; best: a plan chooses the fastest for each head")


class Changes(Section):
    """Changes to try without editing tables; users are called as in the tables."""

    without: tuple[str, ...] = Field(
        (), strict=False, description="users that take no part: they hold no samples and have no links"
    )
    cut: tuple[str, ...] = Field((), strict=False, description='links to take away, such as "lobby,roof"')
    consent: tuple[str, ...] = Field(
        (), strict=False, description='largest share of its samples that a user shares, such as "lobby=0.1"'
    )

    @field_validator("*", mode="before")
    @classmethod
    def _several_texts(cls, value: Any) -> Any:
        # A single one, and ids as numbers, are what people write.
        several = value if isinstance(value, list | tuple) else [value]
        return [str(one) if isinstance(one, int) and not isinstance(one, bool) else one for one in several]


class Scenario(Section):
    """All parameters of one task.

    Example:
        >>> scenario = Scenario()
        >>> scenario.sidelink.min_rate_bps
        350000.0
    """

    seed: Annotated[int, Field(ge=0, lt=2**63)] = Field(0, description="seed of every random choice")
    plugins: tuple[str, ...] = Field(
        (), strict=False, description="plug-in files: Python code that is run; use only files that you trust"
    )
    data: Data = Data()
    geometry: Geometry = Geometry()
    sidelink: Sidelink = Sidelink()
    cellular: Cellular = Cellular()
    trust: Trust = Trust()
    devices: Devices = Devices()
    clustering: ClusteringSettings = ClusteringSettings()
    rounds: Rounds = Rounds()
    allocation: Allocation = Allocation()
    sharing: SharingSettings = SharingSettings()
    training: Training = Training()
    changes: Changes = Changes()

    @property
    def facts(self) -> dict[str, str]:
        """Return what is most worth knowing, for people."""
        data, training = self.data, self.training
        return {
            "dataset": f"{data.dataset} ({data.partition})",
            "users": f"{data.num_users:,}",
            "rule": self.clustering.rule,
            "method": self.allocation.method,
            "training": f"{training.algorithm}, {model_name(self)}, {pluralize(training.rounds, 'round')}",
            "target": percent(self.rounds.target_accuracy),
            "seed": str(self.seed),
        }

    def __repr__(self) -> str:
        return short_repr("Scenario", self.facts)

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """Return the facts, and what differs from the defaults, as a table for notebooks."""
        from fedcast.scenario.file_paths import flat_values

        usual = flat_values(Scenario())
        changed = {key: value for key, value in flat_values(self).items() if key not in usual or value != usual[key]}
        return html_table("Scenario", self.facts | {key: setting_text(value) for key, value in changed.items()})


def model_name(scenario: Scenario) -> str:
    """Return the name of the model that a scenario trains; ``auto`` is the default of its dataset.

    Example:
        >>> model_name(Scenario())
        'small_cnn'
    """
    name = scenario.training.model
    return MODEL_OF_DATASET.get(scenario.data.dataset, USUAL_MODEL) if name == "auto" else name
