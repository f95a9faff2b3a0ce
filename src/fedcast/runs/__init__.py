"""Runs: prepare and train a scenario, run folders, sweeps, packs for other machines, comparisons, trackers.

Most names are imported when first used, since they need PyTorch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedcast._lazy import lazy_names

if TYPE_CHECKING:
    from fedcast.runs.attacks import AttackResult, Reconstruction, RunAttack, attack_run
    from fedcast.runs.checks import check_training
    from fedcast.runs.comparable import (
        Facet,
        cell,
        decides,
        facet_name,
        facets,
        gives_epochs,
        setting,
        stack_tables,
        stacked,
    )
    from fedcast.runs.comparison import (
        Comparison,
        Row,
        Score,
        compare,
        comparison_table,
        runs_table,
        score,
        targets_table,
    )
    from fedcast.runs.export import export_run
    from fedcast.runs.facts import Facts, facts_of, tables_of
    from fedcast.runs.gain_parts import Gain, epochs_notes, gains, gains_table
    from fedcast.runs.lost_updates import (
        COUNTS,
        AttendanceRow,
        attendance,
        attendance_table,
        attendance_text,
        shown_counts,
    )
    from fedcast.runs.model_attacks import attack_model
    from fedcast.runs.packing import pack, unpack
    from fedcast.runs.prepare import (
        PreparedRun,
        TrainedRun,
        clock_of,
        first_model,
        prepare_run,
        train_prepared,
        train_scenario,
    )
    from fedcast.runs.provenance import source_commit, versions
    from fedcast.runs.rounds_design import Setting, design, ladder_of
    from fedcast.runs.rounds_study import (
        RoundsRun,
        RunsFile,
        StudyFit,
        check_same_task,
        check_study,
        fit_study,
        read_runs,
        run_study,
        save_runs,
        study_task,
    )
    from fedcast.runs.seed_statistics import Interval, PairedTest, half_widths, interval, paired_test
    from fedcast.runs.store import reset_run, run_folder, run_scenario, store_run
    from fedcast.runs.stored_run import (
        FailedRun,
        Guarantee,
        RunsLike,
        StoredRun,
        Timing,
        as_runs,
        is_done,
        load_failures,
        load_run,
        load_runs,
    )
    from fedcast.runs.strategies import Strategy, strategy_of
    from fedcast.runs.studies import Study, StudyResult, Trial, facets_table, load_study, sweep_study, trials_table
    from fedcast.runs.sweeps import combinations, grid, sweep, variants, with_given_epochs
    from fedcast.runs.trackers import log_run, log_runs, log_targets
    from fedcast.runs.user_accuracy import fine_tuned_measures, user_scores
    from fedcast.runs.worths import fit_worths, generated_run

__all__ = [
    "COUNTS",
    "AttackResult",
    "AttendanceRow",
    "Comparison",
    "Facet",
    "Facts",
    "FailedRun",
    "Gain",
    "Guarantee",
    "Interval",
    "PairedTest",
    "PreparedRun",
    "Reconstruction",
    "RoundsRun",
    "Row",
    "RunAttack",
    "RunsFile",
    "RunsLike",
    "Score",
    "Setting",
    "StoredRun",
    "Strategy",
    "Study",
    "StudyFit",
    "StudyResult",
    "Timing",
    "TrainedRun",
    "Trial",
    "as_runs",
    "attack_model",
    "attack_run",
    "attendance",
    "attendance_table",
    "attendance_text",
    "cell",
    "check_same_task",
    "check_study",
    "check_training",
    "clock_of",
    "combinations",
    "compare",
    "comparison_table",
    "decides",
    "design",
    "epochs_notes",
    "export_run",
    "facet_name",
    "facets",
    "facets_table",
    "facts_of",
    "fine_tuned_measures",
    "first_model",
    "fit_study",
    "fit_worths",
    "gains",
    "gains_table",
    "generated_run",
    "gives_epochs",
    "grid",
    "half_widths",
    "interval",
    "is_done",
    "ladder_of",
    "load_failures",
    "load_run",
    "load_runs",
    "load_study",
    "log_run",
    "log_runs",
    "log_targets",
    "pack",
    "paired_test",
    "prepare_run",
    "read_runs",
    "reset_run",
    "run_folder",
    "run_scenario",
    "run_study",
    "runs_table",
    "save_runs",
    "score",
    "setting",
    "shown_counts",
    "source_commit",
    "stack_tables",
    "stacked",
    "store_run",
    "strategy_of",
    "study_task",
    "sweep",
    "sweep_study",
    "tables_of",
    "targets_table",
    "train_prepared",
    "train_scenario",
    "trials_table",
    "unpack",
    "user_scores",
    "variants",
    "versions",
    "with_given_epochs",
]

__getattr__ = lazy_names(__name__, __file__)
