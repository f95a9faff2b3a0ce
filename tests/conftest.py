import os
from importlib.util import find_spec
from pathlib import Path

# Tests run side by side, one thread each: small steps on many threads wait for each other more than they compute.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("fedcast", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.load_profile("fedcast")


TESTS = Path(__file__).parent

# What `make quick` leaves to `make test`: files whose tests train, start processes or compare with brute force, ...
LONG_FILES = {
    "allocation/test_limited.py",
    "allocation/test_oracle_local_work.py",
    "allocation/test_traces.py",
    "cli/test_report.py",
    "cli/test_run.py",
    "federation/test_faults.py",
    "federation/test_flare.py",
    "fuzz/test_fuzz.py",
    "paper/test_command.py",
    "paper/test_figures.py",
    "paper/test_training_figures.py",
    "report/test_browser.py",
    "report/test_plan_browser.py",
    "runs/test_export_flower.py",
    "runs/test_loggers.py",
    "runs/test_own_model_file.py",
    "runs/test_packing.py",
    "runs/test_plugin_files.py",
    "runs/test_sweep.py",
    "sharing/test_attack.py",
    "sharing/test_mechanism.py",
    "test_examples.py",
    "test_readme.py",
}
# ... and tests of other files that take more than two seconds, all their parameters together.
LONG_TESTS = {
    "fedcast.runs.prepare.train_scenario",
    "fedcast.testing.algorithms.check_algorithm",
    "test_a_device_that_left_keeps_its_row_with_zeros",
    "test_any_other_model_is_saved_by_torch_export",
    "test_the_plain_script_finds_the_accuracy_of_fedcast",
    "test_fedcast_reads_it_back_and_finds_the_same_accuracy",
    "test_a_difference_lists_every_user_with_old_and_new_values",
    "test_changes_are_tried_without_editing_tables",
    "test_taking_a_link_away_never_makes_a_plan_faster",
    "test_what_became_of_each_user_by_a_plain_loop",
    "test_a_dropout_file_is_checked",
    "test_stragglers",
    "test_a_federation_gives_the_weights_of_the_simulation",
    "test_a_file_means_the_same_to_every_command",
    "test_a_million_links_with_one_bad_line",
    "test_a_plain_double_loop_gives_the_same_links",
    "test_a_real_process_and_a_closed_pipe",
    "test_a_server_that_dies_resumes_with_the_same_result",
    "test_a_time_limit_leaves_a_clustering_and_a_true_bound",
    "test_an_interrupted_plan_promises_nothing",
    "test_any_places_give_a_sound_graph_both_ways",
    "test_auto_engine_stacks_small_models_and_loops_over_large_ones",
    "test_bfloat16_of_a_recurrence",
    "test_bfloat16_products_train_about_as_well_and_not_the_same",
    "test_both_ways_give_the_same_graph_edge_for_edge",
    "test_cifar10",
    "test_cifar10_from_the_original_archive",
    "test_compiled_and_interpreted_rules_agree",
    "test_compiled_step_gives_the_same",
    "test_ctrl_c_stops_after_a_checkpoint",
    "test_each_scenario_trains_in_a_folder_of_its_own",
    "test_every_dataset_passes_every_check",
    "test_every_figure_in_every_format",
    "test_every_model",
    "test_every_model_passes_every_check",
    "test_every_rule_passes_every_check",
    "test_federated_training_on_fashion_mnist",
    "test_fednova_does_not_favour_users_with_many_steps",
    "test_fit_rounds_from_training_to_plan",
    "test_fractional_against_root_finding",
    "test_gaps_to_the_optimum",
    "test_gpu_layers_compile_to_the_same",
    "test_heavier_models_with_other_algorithms",
    "test_it_is_the_best_of_all_clusterings_on_100_instances_under_a_b_and_c",
    "test_it_is_within_5_percent_of_the_best_of_all_clusterings",
    "test_jfvo_is_quick_and_as_good_as_its_rivals",
    "test_jfvo_on_other_measures_against_brute_force",
    "test_json_to_standard_output_stands_alone",
    "test_kill_9_and_resume",
    "test_leakage_stays_within_its_limit_and_uses_it",
    "test_more_leakage_never_takes_longer",
    "test_a_plan_by_one_rule_says_if_another_is_faster",
    "test_all_rules_are_shown_and_a_faster_one_is_named",
    "test_more_energy_or_a_faster_sidelink_never_costs_time",
    "test_never_worse_than_cvxpy",
    "test_one_bad_line_in_a_million_is_named_within_seconds",
    "test_only_png_and_pdf_need_matplotlib",
    "test_paths_of_a_scenario_start_at_its_folder",
    "test_rates_are_those_of_the_radio_to_float32",
    "test_repeating_clustering_never_makes_it_worse",
    "test_smoke_makes_a_result_and_a_picture",
    "test_stacked_forward_of_both_kinds_against_one_user_at_a_time",
    "test_the_full_result_is_stored_and_can_be_drawn",
    "test_the_least_skew_within_caps_against_brute_force",
    "test_the_oracle_against_brute_force",
    "test_the_plan_is_kept_when_the_reader_of_the_screen_goes_away",
    "test_the_same_runs_give_the_same_bytes_in_another_process_and_folder",
    "test_the_same_seeds_give_the_same_result",
    "test_the_table_says_what_the_plan_says",
    "test_many_users_are_drawn_together_and_the_table_is_capped",
    "test_the_page_needs_no_pytorch_and_nothing_from_outside",
    "test_torch_is_not_imported",
    "test_two_processes_on_one_folder_do_the_run_once",
    "test_users_are_stacked_where_it_pays",
    "test_users_that_share_nothing_are_offered_again",
    "test_volumes_of_the_plan_are_what_is_shared",
    "test_what_no_table_says_is_listed_with_the_way_to_say_it",
    "test_who_is_left_out_and_who_leads_all_the_same",
    "test_written_in_every_format",
    "test_numbers_of_a_plan_have_heads",
    "test_methods_find_the_optimum_of_a_general_solver",
    "test_random_deal_has_the_law_of_dealing_cards",
    "test_jfvo_leaves_local_optima_of_balanced_heads",
    "test_less_leakage_takes_longer",
    "test_rounds_needed_is_the_first_that_does",
    "test_table2_sets_the_paper_beside_ours",
    "test_beyond_rounds_counts_rounds_seconds_and_who_never_arrives",
    "test_fig4_judges_gains_across_datasets",
    "test_a_plan_knows_that_epochs_and_learning_rate_save_rounds",
    "test_under_b_the_price_of_a_sample_settles_at_the_average",
}


def _is_long(path):
    return path.is_relative_to(TESTS) and path.relative_to(TESTS).as_posix() in LONG_FILES


def pytest_configure(config):
    """Leave out modules whose extra is not installed, which cannot even be imported."""
    if find_spec("nvflare") is None:
        config.option.ignore = [*(config.option.ignore or []), str(TESTS.parent / "src/fedcast/federation/flare")]


def pytest_ignore_collect(collection_path, config):
    """Do not even import long files where their tests would be left out."""
    return True if "not long" in config.option.markexpr and _is_long(collection_path) else None


def pytest_collection_modifyitems(items):
    for item in items:
        by_name = getattr(item, "originalname", item.name) in LONG_TESTS
        if by_name or _is_long(item.path):
            item.add_marker("long")
            # Loops and examples whose lines other tests run too: measuring coverage would double their time.
            if by_name or item.path.parent.name in ("allocation", "fuzz", "tests"):
                item.add_marker("no_cover")
    # Long files first, so that no process is left alone with one of them at the end.
    items.sort(key=lambda item: not _is_long(item.path))


def pytest_terminal_summary(terminalreporter):
    """Print what became of the inputs of the fuzzing campaign, also where workers ran it."""
    reports = [report for group in terminalreporter.stats.values() for report in group]
    called = [report.user_properties for report in reports if getattr(report, "when", None) == "call"]
    for name, counts in [value for properties in called for key, value in properties if key == "fuzzed"]:
        told = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(counts.items()))
        terminalreporter.write_line(f"fuzzed {name}: {told}")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with real datasets, or a skip that says how to have one."""
    folder = os.environ.get("FEDCAST_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("real datasets are tested only where FEDCAST_DATA names a folder that holds them")
    return Path(folder)


@pytest.fixture
def no_kernel_cache(monkeypatch) -> None:
    """As if numba found no folder to keep machine code in."""
    import numba

    real = numba.njit

    def read_only(function=None, **options):
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return real(function, **options)

    monkeypatch.setattr(numba, "njit", read_only)


@pytest.fixture
def empty_cache(tmp_path, monkeypatch) -> Path:
    """No data folder, an empty cache, and no network."""
    monkeypatch.delenv("FEDCAST_DATA", raising=False)
    cache = tmp_path / "cache"
    monkeypatch.setattr("fedcast.data.catalogue.cache_folder", lambda: cache)
    return cache


@pytest.fixture
def registered(monkeypatch):
    """Return a function that registers a plug-in for the length of a test."""
    from fedcast import registry

    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    return registry.register
