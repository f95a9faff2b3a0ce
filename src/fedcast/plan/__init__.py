"""Plans: make one from a scenario, save it as JSON, compare two."""

from fedcast.plan.bottleneck import Bottleneck, Bottlenecks, TaskDelays, find_bottlenecks, saved
from fedcast.plan.changes import changes_text, read_changes, unchanged
from fedcast.plan.curves import baseline_delay
from fedcast.plan.diff import PlanDiff, diff_plans
from fedcast.plan.left_out import LeftOut, RefusedLinks, find_left_out, refused_links
from fedcast.plan.make import Planned, clustering_of, control_of, make_plan, plan_changes, plan_world
from fedcast.plan.plan_document import load_plan, plan_from_json, plan_schema, plan_to_json, save_plan
from fedcast.plan.remade_world import world_of_plan
from fedcast.plan.scenario_checks import needs_rounds, scenario_notes
from fedcast.plan.search import CompareRules
from fedcast.plan.sharing_plan import Baseline, LeakagePoint, PrivacyPoint, RuleOutcome, SharingPlan
from fedcast.plan.user_table import plan_table, plan_to_pandas
from fedcast.plan.world import World, check_world, link_rates_bps, make_world, network_of, places_known, sharing_cost_of

__all__ = [
    "Baseline",
    "Bottleneck",
    "Bottlenecks",
    "CompareRules",
    "LeakagePoint",
    "LeftOut",
    "PlanDiff",
    "Planned",
    "PrivacyPoint",
    "RefusedLinks",
    "RuleOutcome",
    "SharingPlan",
    "TaskDelays",
    "World",
    "baseline_delay",
    "changes_text",
    "check_world",
    "clustering_of",
    "control_of",
    "diff_plans",
    "find_bottlenecks",
    "find_left_out",
    "link_rates_bps",
    "load_plan",
    "make_plan",
    "make_world",
    "needs_rounds",
    "network_of",
    "places_known",
    "plan_changes",
    "plan_from_json",
    "plan_schema",
    "plan_table",
    "plan_to_json",
    "plan_to_pandas",
    "plan_world",
    "read_changes",
    "refused_links",
    "save_plan",
    "saved",
    "scenario_notes",
    "sharing_cost_of",
    "unchanged",
    "world_of_plan",
]
