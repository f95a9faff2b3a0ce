"""Plans: made from a scenario, kept as JSON, compared with each other."""

from fedcast.plan.diff import PlanDiff, diff_plans
from fedcast.plan.document import load_plan, plan_from_json, plan_schema, plan_to_json, save_plan
from fedcast.plan.make import clustering_of, make_plan
from fedcast.plan.sharing_plan import Delay, LeakagePoint, SharingPlan
from fedcast.plan.world import World, link_rates_bps, make_world

__all__ = [
    "Delay",
    "LeakagePoint",
    "PlanDiff",
    "SharingPlan",
    "World",
    "clustering_of",
    "diff_plans",
    "link_rates_bps",
    "load_plan",
    "make_plan",
    "make_world",
    "plan_from_json",
    "plan_schema",
    "plan_to_json",
    "save_plan",
]
