"""The matrix of faults: what may happen, what is guaranteed then, and the tests that play it.

Where a row speaks of a part that sirocco does not have, it says so.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Row:
    """One fault. `tests` are pytest ids below tests/; where there are none, `why` says why."""

    name: str
    fault: str
    guarantee: str
    tests: tuple[str, ...] = ()
    why: str = ""


def as_markdown() -> str:
    """The table of docs/reliability.md."""
    lines = ["| | what happens | what is guaranteed | tests |", "|---|---|---|---|"]
    for row in ROWS:
        files = dict.fromkeys(test.partition("::")[0] for test in row.tests)
        shown = ", ".join(f"`tests/{file}`" for file in files)
        lines.append(
            f"| {row.name} | {row.fault} | {row.guarantee or row.why} | {shown or 'none'} |"
        )
    return "\n".join(lines)


def _row(name: str, fault: str, guarantee: str, *tests: str) -> Row:
    return Row(name, fault, guarantee, tests)


def _none(name: str, fault: str, why: str) -> Row:
    return Row(name, fault, "", (), why)


_CRASHES: Final = "command_line/test_delayed_crashes.py"
_UP: Final = "command_line/test_up.py"
_WORKERS: Final = "command_line/test_serve_workers.py"
_TRAINING: Final = "command_line/test_training_crashes.py"
_LAST_GOOD: Final = "api/test_last_good.py"
_AWAY: Final = "api/test_store_away.py"
_SLOW: Final = "api/test_connections_slow.py"
_BODIES: Final = "api/test_bodies.py"
_LOOP: Final = "worker/test_loop.py"
_TRIAL: Final = "worker/delayed/test_model_trial.py"

ROWS: Final = (
    _row(
        "F1",
        "kill -9 of an API process under load",
        "the others answer; it is started again; counters do not fall",
        f"{_WORKERS}::test_all_answer_for_each_other_and_to_the_end",
        f"{_WORKERS}::test_workers_are_replaced_and_nobody_notices",
        f"{_UP}::test_a_child_that_dies_is_started_again",
    ),
    _row(
        "F2",
        "SIGTERM and SIGHUP of the API under load",
        "no request fails",
        f"{_WORKERS}::test_workers_are_replaced_and_nobody_notices",
        f"{_WORKERS}::test_all_answer_for_each_other_and_to_the_end",
        "api/test_draining.py",
    ),
    _row(
        "F3",
        "kill -9 of the worker amid a refit or a training",
        "the old maps and the old model stay; the next worker finishes the job",
        _TRAINING,
        f"{_LOOP}::test_a_running_job_of_a_killed_worker_is_run_by_the_next",
    ),
    _row(
        "F4",
        "kill -9 of the worker between a version's bytes and its coming into force",
        "the version before stays in force, and all that is in force is whole",
        "storage/test_crashes.py::"
        "test_a_kill_in_the_midst_of_publishes_leaves_whole_versions_and_the_last_one_in_force",
        "storage/test_models.py::test_a_publisher_that_dies_leaves_nothing_behind",
    ),
    _row(
        "F5",
        "kill -9 of Redis while it writes",
        "calibrations go on; every acknowledged event counts once",
        _CRASHES,
        "storage/test_crashes.py::"
        "test_what_was_acknowledged_is_there_after_a_kill_and_a_retry_doubles_nothing",
        "storage/test_cut_file.py",
        f"{_UP}::test_calibration_goes_on_while_redis_is_killed_again_and_again",
    ),
    _row(
        "F6",
        "Redis is frozen",
        "calibrations do not wait; every call fails within its timeout",
        f"{_AWAY}::test_a_frozen_store_is_survived_and_found_again",
        "storage/test_connection.py",
    ),
    _row(
        "F7",
        "Redis is full",
        "what is refused leaves nothing behind; maps stay; /readyz and a gauge say so",
        "storage/test_refused_writes.py",
        "storage/test_refused_click_writes.py",
        "api/test_store_dangers.py::test_a_full_store_is_not_up",
    ),
    _row(
        "F8",
        "Redis comes back empty",
        "the maps that are served go back into it; a refit on nothing is held",
        f"{_AWAY}::test_a_wiped_store_gets_back_what_is_served",
        f"{_LAST_GOOD}::test_an_emptied_store_gets_the_version_of_the_disk_back",
        "worker/test_held_refits.py::test_a_store_that_was_emptied_is_no_fresh_one",
    ),
    _row(
        "F9",
        "the store returns damaged bytes or a wrong type",
        "noticed; the newest whole version is served, never the identity",
        "storage/test_damaged_versions.py",
        f"{_LAST_GOOD}::test_a_damaged_version_in_force_is_never_the_identity",
        "storage/test_folding.py::test_a_damaged_block_is_set_aside_and_the_others_are_folded",
        "storage/test_bit_flips.py",
        "worker/test_damaged_stores.py",
    ),
    _row(
        "F10",
        "a master of a Redis Cluster goes, or a slot moves",
        "calls fail as the store being away; what was acknowledged with WAIT counts once",
        "storage/test_cluster.py",
        "storage/test_sentinel.py",
    ),
    _row(
        "F11",
        "Redis is slow",
        "calibrations do not wait for requests that wait for the store",
        f"{_AWAY}::test_calibration_does_not_wait_for_requests_that_wait_for_the_store",
    ),
    _row(
        "F12",
        "the disk is full",
        "the last good maps are tried again; a click log that cannot be written keeps all in Redis",
        f"{_LAST_GOOD}::test_a_full_disk_is_counted_and_tried_again_after_a_minute",
        "click_log/test_folder.py::test_a_disk_that_is_full_leaves_nothing_behind",
        "worker/delayed/test_closing.py::test_what_cannot_be_written_stays_in_redis",
    ),
    _row(
        "F13",
        "the file of the last good maps is cut or damaged",
        "noticed; the one before is read",
        f"{_LAST_GOOD}::"
        "test_every_cut_and_every_flipped_byte_is_noticed_and_the_one_before_is_read",
    ),
    _row(
        "F14",
        "stored bytes of a newer format",
        "refused with a message, and left alone",
        "storage/test_damaged_versions.py::test_a_manifest_of_a_newer_schema_is_refused",
        "click_log/test_damage.py::test_a_part_of_a_newer_version_is_refused_and_left_alone",
    ),
    _row(
        "F15",
        "the clock jumps by an hour or a day, either way",
        "no hour is published twice, and none is missed for long",
        f"{_LOOP}::test_a_clock_that_jumps_publishes_no_hour_twice_and_misses_none_for_long",
        f"{_LOOP}::test_a_pause_after_a_failure_does_not_last_as_long_as_a_jump",
    ),
    _row(
        "F16",
        "two workers at once",
        "what the one without the lease publishes is refused",
        "storage/test_lease.py",
        "worker/test_refitting.py::test_without_the_lease_nothing_is_published",
        f"{_LOOP}::test_a_second_worker_takes_over_when_the_first_is_killed",
        "worker/together/test_deaths.py::test_maps_are_the_same_whoever_is_killed",
    ),
    _row(
        "F17",
        "events come more than once",
        "they count once",
        "storage/test_exactly_once.py",
        "storage/test_clicks_exactly_once.py",
    ),
    _row(
        "F18",
        "events come late and in any order, within the window",
        "the sums are the same",
        "storage/test_clicks_exactly_once.py::test_any_order_and_split_gives_the_same_clicks",
        "worker/test_refitting.py::test_late_clicks_reach_the_judged_hour",
    ),
    _row(
        "F19",
        "events from behind the window, or from the future",
        "rejected one by one with the reason",
        "api/test_event_times.py",
        "api/test_events.py::test_events_that_are_all_late_are_no_broken_request",
    ),
    _row(
        "F20",
        "conversions without a click",
        "kept, counted, and no label of anything",
        "click_log/test_strays.py",
    ),
    _row(
        "F21",
        "the worker dies behind the work and before it is noted",
        "done again, counted once",
        "storage/test_folding.py::test_a_folder_that_dies_around_a_step_neither_loses_nor_doubles",
        "worker/delayed/test_closing.py::"
        "test_a_worker_that_dies_leaves_every_click_and_conversion_once",
    ),
    _none(
        "F22",
        "a stream is trimmed under pending entries",
        "there are no streams: what was"
        " acknowledged has no life before it is folded"
        " (storage/test_store_watch.py::test_what_was_acknowledged_waits_for_its_fold_for_ever)",
    ),
    _row(
        "F23",
        "an event that nobody can read",
        "it is set aside, and the others are folded",
        "storage/test_folding.py::test_a_damaged_block_is_set_aside_and_the_others_are_folded",
        "worker/delayed/test_closing.py::"
        "test_a_block_of_conversions_that_cannot_be_read_is_put_aside",
    ),
    _row(
        "F24",
        "odd scores: nan, infinite, -0, denormal, huge",
        "refused, or a finite probability",
        "api/test_calibrate_refusals.py",
        "api/test_properties.py",
    ),
    _row(
        "F25",
        "bodies that are huge, deep, packed or none",
        "refused at once with a small answer; memory is bounded",
        _BODIES,
        "api/test_columns_fuzz.py",
    ),
    _row(
        "F26",
        "callers that send or read slowly",
        "dropped in time; the others are answered",
        _SLOW,
        "api/test_connections_sweep.py",
    ),
    _row(
        "F27",
        "connections without end",
        "bounded; one too many is told so and disturbs nobody",
        "api/test_connections_bounds.py",
        f"{_SLOW}::test_a_thousand_idle_connections_change_no_answer",
    ),
    _row(
        "F28",
        "more load than can be answered",
        "events and reads are refused first, calibrations last, health never",
        "api/test_shedding.py",
        "api/test_loop_stalls.py",
    ),
    _row(
        "F29",
        "callers that all try again",
        "a budget of a tenth, drawn pauses, Retry-After is heeded",
        "clients/test_retries.py",
        "clients/test_outages.py::test_clients_do_not_storm",
    ),
    _row(
        "F30",
        "a new version is read under load",
        "requests have their turn; answers are of one version",
        "api/test_whole_versions.py",
        "api/test_pace.py",
    ),
    _row(
        "F31",
        "maps that fall, leave [0, 1] or have odd knots",
        "refused before they are published",
        "calibrators/test_calibration_map.py",
        "calibrators/test_every_calibrator.py",
    ),
    _row(
        "F32",
        "a refit that moves further than ever before",
        "held until somebody approves it",
        "worker/test_held_refits.py",
        "command_line/test_retrain.py::test_what_is_held_is_approved_or_rejected",
    ),
    _row(
        "F33",
        "hours and campaigns without traffic, with one class, with one sample",
        "a refit works on what there is",
        "worker/test_refitting.py::test_a_refit_works_whatever_traffic_is_missing",
        "test_empty_arrays.py",
    ),
    _row(
        "F34",
        "constant scores",
        "a sound map",
        "calibrators/test_every_calibrator.py::test_constant_scores_give_a_sound_map",
    ),
    _row(
        "F35",
        "made-up outcomes for a campaign",
        "what serves it moves by no more than the guard's step an hour",
        "calibrators/guard/test_attacks.py",
    ),
    _row(
        "F37",
        "half of the clicks, or all of them, are lost upstream",
        "an outage of tracking is told from a fall",
        "calibrators/pooled/test_levels_in_outages.py",
    ),
    _row(
        "F36",
        "conversions stop coming",
        "a sudden silence is not believed at once",
        "worker/delayed/test_refits.py::test_without_a_source_the_maps_in_force_stay",
    ),
    _row(
        "F38",
        "a model is damaged, tampered with, or sends LightGBM in a circle",
        "tried in a process of its own; the one before stays",
        _TRIAL,
        "storage/test_models.py::test_a_changed_byte_anywhere_is_noticed",
        "worker/delayed/test_model_shelf.py::"
        "test_a_model_signed_with_another_key_leaves_the_one_before",
    ),
    _row(
        "F39",
        "features go, or change their kind",
        "missing, and said to be",
        "worker/delayed/test_refits.py::test_a_feature_that_nobody_sends_any_more_is_missing",
        "worker/delayed/test_refits.py::test_a_feature_that_changed_its_kind_leaves_the_delays",
    ),
    _none("F40, F41", "a node or scheduler of a compute cluster goes", "there is none"),
    _row(
        "F42",
        "a part of the click log is written twice",
        "its rows are read once",
        "click_log/test_compaction.py::test_rows_that_stand_twice_go",
        "click_log/test_crashes.py",
    ),
    _row(
        "F43",
        "a part of the click log is damaged, denied or gone",
        "set aside and counted; the rest is read",
        "click_log/test_damage.py",
    ),
    _row(
        "F44",
        "a million campaigns that nobody knows",
        "the number of metric series stays",
        "api/test_metrics.py::test_strangers_cannot_multiply_series",
    ),
    _row(
        "F45",
        "an API process dies with its counts",
        "counters do not fall, gauges are not stale",
        "api/test_workers.py",
    ),
    _row(
        "F46",
        "settings that cannot be",
        "refused at start, each with its name, value and rule",
        "test_settings.py",
        "command_line/test_unsafe_stores.py",
    ),
    _row(
        "F47",
        "a key is revoked or rotated",
        "refused within seconds, also where it was remembered; no other request fails",
        "api/test_access.py::test_a_revoked_key_is_refused_though_it_was_remembered",
        "api/test_access.py::test_another_process_hears_of_it",
        "api/test_access.py::test_rotation_and_expiry_by_routes",
    ),
    _row(
        "F48",
        "a hundred requests for a refit",
        "one job",
        "storage/test_jobs.py::test_who_asks_for_what_already_waits_gets_the_job_that_waits",
    ),
    _row(
        "F49",
        "the audit log is altered or cut",
        "found, with the first wrong entry",
        "access/test_audit.py",
    ),
    _row(
        "F50",
        "an upgrade over stored formats of the version before",
        "all is read; the maps in force are served",
        "storage/test_former_formats.py",
    ),
    _row(
        "promoted",
        "the master of Redis is demoted, and another takes its place",
        "writes go to the new one; /readyz says so meanwhile",
        "api/test_store_dangers.py::test_a_demoted_master_is_left_for_its_successor",
        "storage/test_store_watch.py::"
        "test_a_demoted_master_takes_no_writes_and_its_successor_is_found",
    ),
    _row(
        "loading",
        "Redis is killed while it loads a large file",
        "`sirocco up` waits for as long as it loads, and outlives each child",
        "storage/test_loading.py",
        f"{_UP}::test_whoever_is_killed_at_the_start_is_started_again",
    ),
)
