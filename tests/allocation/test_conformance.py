"""The conformance kit on all built-in methods, on methods that break each rule, and a method from a plug-in file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from fedcast import registry
from fedcast.allocation import METHODS, Method, Solution, allocate, find_method, method_options
from fedcast.errors import FedcastError
from fedcast.registry import option
from fedcast.scenario import Allocation
from fedcast.testing import allocation as kit
from fedcast.testing.allocation import BITS_PER_SAMPLE, CHECKS, gaps_to_optimum, random_case

BUILT_IN = tuple(registry.BUILT_IN["allocation"])
EXAMPLE = Path(__file__).parents[2] / "examples" / "own_allocation.py"
# The largest relative gap to the optimum over the kit's problems, 20 steps.
GAPS = {"jfvo": 1e-9, "smm": 1e-6, "saa": 1e-6, "oracle": 0.0, "jfvo_literal": 0.25, "fixed": 0.3}


def quick(name):
    return method_options(Allocation(method=name), steps=20)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_methods_conform(name, check):
    if name == "jfvo_literal" and check is kit.is_no_worse_than_sharing_nothing:
        # The paper's alternation can end above the delay without sharing, which the kit notices.
        with pytest.raises(AssertionError, match="without sharing it is"):
            check(METHODS[name], METHODS[name].options())
        return
    check(METHODS[name], quick(name))


@pytest.mark.parametrize("name", BUILT_IN)
def test_gaps_to_the_optimum(name):
    gaps = gaps_to_optimum(METHODS[name], quick(name))
    assert min(gaps) >= -1e-6
    assert max(gaps) <= GAPS[name]
    if name in ("jfvo_literal", "fixed"):
        assert max(gaps) > 0.1


calls = []


def counting(problem, _):
    calls.append(problem)
    return Solution(np.minimum(problem.caps, 1e-9 * len(calls)))


def scribbling(problem, _):
    problem.caps[:] *= 1.0 + 1e-12
    return Solution(np.zeros(problem.num_clusters))


@pytest.mark.parametrize(
    ("find", "check", "words"),
    [
        (lambda p, _: Solution(np.zeros(1)), kit.returns_feasible_ratios, "ratios of shape"),
        (lambda p, _: Solution(np.full(p.num_clusters, np.nan)), kit.returns_feasible_ratios, "not finite"),
        (lambda p, _: Solution(p.caps - 0.9), kit.returns_feasible_ratios, "a ratio is -"),
        (lambda p, _: Solution(p.caps + 0.01), kit.returns_feasible_ratios, "above the cap or consent"),
        (lambda p, _: Solution(p.caps), kit.returns_feasible_ratios, "average sharing ratio is .* its limit is 0.03"),
        (lambda p, _: Solution(p.caps + 0.1), kit.keeps_limits_after_rounding, "more than it consents to"),
        (counting, kit.repeats_itself, "different ratios"),
        (scribbling, kit.leaves_the_problem_unchanged, "an array of the problem has changed"),
        (lambda p, _: Solution(p.caps), kit.is_no_worse_than_sharing_nothing, "without sharing it is"),
    ],
)
def test_the_kit_notices_what_is_wrong(find, check, words, monkeypatch):
    # Fresh problems: one of these methods writes to them.
    monkeypatch.setattr(kit, "_problems", kit._problems.__wrapped__)
    with pytest.raises(AssertionError, match=words):
        check(Method(find, "broken", optimises=check is not kit.keeps_limits_after_rounding), None)


@pytest.fixture
def plugin_registry(monkeypatch):
    """Methods that a test registers are removed after it."""
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    monkeypatch.setattr(registry, "_loaded_files", {})


def test_a_method_from_a_plugin_file_works_in_allocate(plugin_registry, tmp_path):
    with pytest.raises(FedcastError, match="invalid value 'uniform' for allocation.method"):
        find_method("uniform")
    file = tmp_path / "mine.py"
    file.write_text(EXAMPLE.read_text(encoding="utf-8"), encoding="utf-8")
    registry.load_file(file)
    assert list(METHODS) == [*BUILT_IN, "uniform"]
    assert registry.find("allocation", "uniform").origin == f"file {file}"
    case = random_case(1, "frequency", num_users=30)
    given = {"bits_per_sample": BITS_PER_SAMPLE, "rate_bps": case.rate_bps}
    settings = Allocation(method="uniform", max_sharing_ratio=0.5)
    result = allocate(case.clustering, case.fleet, case.model, settings, with_gap=True, **given)
    assert result.method == "uniform"
    assert 0 < result.gap < 0.5
    ratios = result.volumes[result.clustering.heads] / case.clustering.problem.skew.sizes[result.clustering.heads]
    assert np.ptp(ratios) < 1e-12
    # Its own options reach it: with two ratios it can only choose between nothing and all.
    options = replace(method_options(settings), ratios=2)
    coarse = allocate(case.clustering, case.fleet, case.model, settings, options=options, **given)
    assert coarse.relaxed_objective_s >= result.relaxed_objective_s
    assert coarse.volumes.max() == pytest.approx(0.5 * 600) or not coarse.volumes.any()


def test_options_come_from_the_settings():
    settings = Allocation(steps=7, surrogate_exponent=0.7, iterate_exponent=0.8, fixed_ratio=0.3)

    def of(method, **changes):
        return vars(method_options(settings.model_copy(update={"method": method}), **changes))

    search = {"steps": 7, "surrogate_exponent": 0.7, "iterate_exponent": 0.8}
    assert of("jfvo") == of("jfvo_literal") == search
    assert of("smm") == {"steps": 7, "surrogate_exponent": 0.7}
    assert of("saa", steps=2) == {"steps": 2}
    assert of("fixed", steps=2) == {"ratio": 0.3}
    assert of("oracle") == {}


def test_options_that_the_settings_do_not_have_keep_their_defaults(plugin_registry):
    @dataclass(frozen=True)
    class Mine:
        depth: int = option(3, "how deep")

    registry.register("allocation", "deep", Method(lambda p, o: Solution(np.zeros(p.num_clusters)), "deep", Mine))
    assert method_options(Allocation(method="deep")) == Mine(3)


@pytest.mark.parametrize("name", BUILT_IN)
def test_defaults_are_those_of_the_scenario(name):
    assert method_options(Allocation(method=name)) == METHODS[name].options()
