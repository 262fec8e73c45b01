"""Realistic faults of the core, each with the tests that should find it.

A fault is text, not a place: its old lines stand exactly once in the product, in whatever file.
Tests are globs below `tests`.
"""

from typing import NamedTuple


class Mutant(NamedTuple):
    """`old` lines of the product, the `new` ones in their place, and globs of tests, by spaces."""

    name: str
    old: str
    new: str
    tests: str


_CALIBRATORS = (
    Mutant(
        "bins-positives-without-impressions",
        "grand_total(np.minimum(self.positives, self.counts))",
        "grand_total(self.positives)",
        "**/test_bins.py",
    ),
    Mutant("bins-empty-cells-kept", "held = sums[0] > 0", "held = sums[0] >= 0", "**/test_bins.py"),
    Mutant(
        "bins-rate-above-one",
        "np.minimum(positives / counts, 1.0)",
        "positives / counts",
        "**/test_bins.py",
    ),
    Mutant(
        "bins-cell-beyond-the-grid",
        "columns[0].max() >= GRID.size",
        "columns[0].max() > GRID.size",
        "**/test_bins_bytes.py",
    ),
    Mutant(
        "grid-upper-border-inside",
        "np.nextafter(borders[1:], 0.0)",
        "borders[1:]",
        "**/test_grid.py **/test_bins.py",
    ),
    Mutant(
        "grid-first-cell-too-wide",
        "np.maximum(bits - self._before_first, 0)",
        "np.maximum(bits - self._before_first - 1, 0)",
        "**/test_grid.py",
    ),
    Mutant(
        "fixed-point-rounds-down",
        "np.floor(values * SCALE + 0.5)",
        "np.floor(values * SCALE)",
        "**/test_fixed_point.py",
    ),
    Mutant(
        "fixed-point-carry-lost",
        "whole + carried + from_fixed(rest)",
        "whole + from_fixed(rest)",
        "**/test_fixed_point.py **/test_bins.py",
    ),
    Mutant(
        "fixed-point-clicks-without-count-dropped",
        "held = np.bitwise_or.reduce(sums) != 0",
        "held = sums[0] != 0",
        "**/test_fixed_point.py **/test_bins_table.py",
    ),
    Mutant(
        "fixed-point-overflow-of-counts-only",
        "np.bincount(place, column).max() for column in columns)",
        "np.bincount(place, column).max() for column in columns[:1])",
        "**/test_fixed_point.py",
    ),
    Mutant(
        "table-totals-positives-without-impressions",
        "matched = np.minimum(self.positives, self.counts)",
        "matched = self.positives",
        "**/test_bins_table.py **/test_refit.py",
    ),
    Mutant(
        "table-offsets-behind-the-first-cell",
        "np.searchsorted(keys, np.arange(len(names) + 1) * _CELLS)",
        'np.searchsorted(keys, np.arange(len(names) + 1) * _CELLS, side="right")',
        "**/test_bins_table.py",
    ),
    Mutant(
        "map-last-knot-unchecked",
        "if len(checked_knots) < 2 or checked_knots[0] != 0.0 or checked_knots[-1] != 1.0:",
        "if len(checked_knots) < 2 or checked_knots[0] != 0.0:",
        "**/test_calibration_map.py",
    ),
    Mutant(
        "map-flat-is-not-monotone",
        "np.all(np.diff(self.values) >= 0)",
        "np.all(np.diff(self.values) > 0)",
        "**/test_calibration_map.py",
    ),
    Mutant(
        "slopes-overshoot",
        "while (over := _overshoots(values, run, inner)).any():",
        "while (over := _overshoots(values, run, inner)).all():",
        "**/test_segments.py",
    ),
    Mutant(
        "slopes-overshoot-where-maps-fall",
        "return rising | ((slopes < 0) & (reached < following))",
        "return rising",
        "**/test_segments.py",
    ),
    Mutant(
        "atlas-identity-told-as-target",
        "self.shared_level = TARGET if has_target_map else IDENTITY",
        "self.shared_level = TARGET",
        "calibrators/**/test_atlas.py",
    ),
    Mutant(
        "atlas-values-read-from-knots",
        'np.frombuffer(data, "<f8", total, offset + 8 * total)',
        'np.frombuffer(data, "<f8", total, offset)',
        "calibrators/**/test_atlas_bytes.py",
    ),
    Mutant(
        "look-up-few-misses-the-last-segment",
        "bisect_right(knots, score, firsts[row], stops[row]) - 1",
        "bisect_right(knots, score, firsts[row], stops[row] - 1) - 1",
        "**/test_map_rows.py",
    ),
    Mutant(
        "spare-blocks-for-ever",
        "while _bytes(_spare) > _MOST_SPARE * _bytes(_used):",
        "while False:",
        "**/test_cache_lines.py",
    ),
    Mutant(
        "look-up-one-halving-too-few",
        "self._halvings = int(lengths.max(initial=1) - 1).bit_length()",
        "self._halvings = int(lengths.max(initial=1) - 1).bit_length() - 1",
        "**/test_map_rows.py",
    ),
    Mutant(
        "sir-cut-on-the-wrong-side",
        "edges = means[cell] + spread[cell] * (1 - 2 * left)",
        "edges = means[cell] + spread[cell] * (2 * left - 1)",
        "**/test_smoothed_isotonic*.py",
    ),
    Mutant(
        "sir-cut-cell-shares-its-mean",
        "above = weights[cell] * left * (means[cell] + spread[cell] * (1 - left))",
        "above = weights[cell] * left * means[cell]",
        "**/test_smoothed_isotonic*.py",
    ),
    Mutant(
        "sir-not-pooled-after-the-prior",
        "pools = _pooled(CampaignBins(leaning, pools.offsets))",
        "pools = CampaignBins(leaning, pools.offsets)",
        "**/test_smoothed_isotonic*.py",
    ),
    Mutant(
        "pooling-equals-apart",
        "return means[1:] > means[:-1] * _EQUAL",
        "return means[1:] >= means[:-1]",
        "**/test_pooling.py",
    ),
    Mutant(
        "tails-not-proportional",
        "return 0.0, values[-1] / anchors[-1]",
        "return 0.0, values[-1]",
        "**/test_tails.py",
    ),
    Mutant(
        "refit-prior-upside-down",
        "ratio = total.total_positives / total.total_score if",
        "ratio = total.total_score / total.total_positives if",
        "**/test_refit.py",
    ),
    Mutant(
        "refit-thin-campaign-keeps-its-map",
        "in_force.with_own(maps, named)",
        "in_force.with_own(maps)",
        "**/test_refit.py",
    ),
)

_POOLED = (
    Mutant(
        "outage-of-hours-that-are-only-lower",
        "seen * COLLAPSE < usual * hourly",
        "seen < usual * hourly",
        "**/test_levels_in_outages.py **/pooled/test_drift.py",
    ),
    Mutant(
        "outage-never-ends",
        "if len(ending) and out[ending[-1]]:",
        "if len(ending) and out.any():",
        "**/test_levels_in_outages.py **/pooled/test_drift.py",
    ),
    Mutant(
        "implausible-neighbours-too",
        "return found & far",
        "return found",
        "**/pooled/test_drift*.py",
    ),
    Mutant(
        "runs-learn-from-odd-hours",
        "counted = 1 - odds[:, :, hour]",
        "counted = np.ones_like(odds[:, :, hour])",
        "**/pooled/test_drift*.py",
    ),
    Mutant(
        "runs-spare-one-less",
        "(begins >= hour - _SPARED)",
        "(begins > hour - _SPARED)",
        "**/pooled/test_drift*.py",
    ),
    Mutant(
        "drift-outage-hours-count",
        "np.clip(begun - odd, 0.0, 1.0) * ~out",
        "np.clip(begun - odd, 0.0, 1.0)",
        "**/test_levels_in_outages.py **/pooled/test_drift.py",
    ),
    Mutant(
        "movement-up-to-now-only", "AHEAD + float(ages[-1:].sum())", "AHEAD", "**/test_movement.py"
    ),
    Mutant(
        "movement-time-runs-back",
        "between = -np.diff(ages, prepend=ages[:1])",
        "between = np.diff(ages, prepend=ages[:1])",
        "**/test_movement.py",
    ),
    Mutant(
        "levels-learn-from-the-future",
        "np.where(since >= 0, np.exp2",
        "np.where(since >= -np.inf, np.exp2",
        "**/test_levels.py",
    ),
    Mutant(
        "levels-unbounded",
        "return np.clip(found, np.exp(-_BOUND), np.exp(_BOUND))",
        "return found",
        "**/test_levels.py",
    ),
    Mutant(
        "window-mass-on-one-knot",
        "sum_at(before + 1, block.predicted * after, knots.count)",
        "sum_at(before, block.predicted * after, knots.count)",
        "**/test_pooled_shape.py **/test_pooled_blocks.py **/test_pooled_method.py",
    ),
    Mutant(
        "window-ages-from-the-ends",
        "ages = history.as_of - (np.arange(first, first + hours) + ends) / 2",
        "ages = history.as_of - ends",
        "**/test_pooled_blocks.py **/test_pooled_method.py",
    ),
    Mutant(
        "memory-of-another-campaign",
        "rows = np.array([known.get(name, -1) for name in names], np.int64)",
        "rows = np.array([known.get(name, 0) for name in names], np.int64)",
        "**/test_pooled_method.py **/test_pooled_blocks.py",
    ),
)

_GUARD = (
    Mutant(
        "guard-no-margin-above",
        "(1.0 + (factor - 1.0) * probabilities) + MARGIN, 1.0)",
        "(1.0 + (factor - 1.0) * probabilities), 1.0)",
        "**/guard/test_bounds.py",
    ),
    Mutant(
        "guard-below-the-reach",
        "served = np.clip(served, lowest, highest)",
        "served = np.minimum(served, highest)",
        "**/guard/test_bounds.py",
    ),
    Mutant(
        "guard-any-level-forgiven",
        "np.clip(shifts + steps, -most, most)",
        "np.clip(shifts + steps, -1.0, 1.0)",
        "**/guard/test_verdicts.py **/guard/test_rates.py",
    ),
    Mutant(
        "guard-keeps-the-map-of-a-neighbour",
        "np.where(rows > 0, 1 + kept, 0)",
        "np.where(rows > 0, 1, 0)",
        "**/guard/test_verdicts.py",
    ),
    Mutant(
        "guard-passes-what-the-parent-beats",
        "np.select([parent, kept | parent_beats_trial],",
        "np.select([parent, kept],",
        "**/guard/test_verdicts.py",
    ),
    Mutant(
        "guard-loudest-campaign-twice",
        "sums[:, np.searchsorted(cells, bins.cells)] -= bins.sums",
        "sums[:, np.searchsorted(cells, bins.cells)] += bins.sums",
        "**/guard/test_newest_hour.py **/guard/test_target.py",
    ),
    Mutant(
        "guard-noise-is-evidence",
        "float((won - best).sum()) >= self.rules.evidence",
        "float((won - best).sum()) >= 0.0",
        "**/guard/test_target.py **/guard/test_rates.py",
    ),
    Mutant(
        "guard-too-few-knots-for-the-bounds",
        "places = np.maximum(left, np.bincount(maps[outside[found]], minlength=len(left)))",
        "places = left",
        "**/guard/test_thinning.py",
    ),
)

_PCCEM = (
    Mutant(
        "attribution-click-and-conversion-at-once",
        "counts = (delays >= 0.0) & (delays < window)\n    first = np.full(len(clicked), np.inf)",
        "counts = (delays > 0.0) & (delays < window)\n    first = np.full(len(clicked), np.inf)",
        "pccem/**/test_attribution.py",
    ),
    Mutant(
        "attribution-not-known-yet",
        "known = converted <= as_of",
        "known = converted < as_of",
        "pccem/**/test_attribution.py",
    ),
    Mutant(
        "attribution-mature-late",
        "mature=age >= window,",
        "mature=age > window,",
        "pccem/**/test_attribution.py",
    ),
    Mutant(
        "attribution-to-the-sorted-click",
        "np.where(ordered[nearest] == conversions, order[nearest], -1)",
        "np.where(ordered[nearest] == conversions, nearest, -1)",
        "pccem/**/test_attribution.py",
    ),
    Mutant(
        "delays-of-the-campaign-before",
        "return np.array([self._row_of.get(name, 0)",
        "return np.array([self._row_of.get(name, 1) - 1",
        "pccem/**/test_delays.py",
    ),
    Mutant(
        "delays-shrunk-the-wrong-way",
        "weights * own + (1.0 - weights) * target",
        "(1.0 - weights) * own + weights * target",
        "pccem/**/test_delays.py",
    ),
    Mutant(
        "delay-curve-at-risk-too-early",
        'np.searchsorted(age[order], times, side="left")',
        'np.searchsorted(age[order], times, side="right")',
        "pccem/**/test_delay_curve.py",
    ),
    Mutant(
        "features-missing-is-the-first-category",
        "table: Rows = np.array([*codes, -1], np.int32)",
        "table: Rows = np.array([*codes, 0], np.int32)",
        "pccem/**/test_features.py",
    ),
    Mutant(
        "labels-conversions-of-the-window-lost",
        "return np.where(clicks.decided, 1.0, labels)",
        "return labels",
        "pccem/**/test_labels.py",
    ),
    Mutant(
        "labels-window-too-long",
        "decided = attribution.delay < rules.post_click",
        "decided = attribution.delay <= rules.post_click",
        "pccem/**/test_labels.py worker/**/test_label_history.py",
    ),
    Mutant(
        "labels-share-below-zero",
        "np.maximum(clicks._share(delays, None), 0.0)",
        "clicks._share(delays, None)",
        "pccem/**/test_labels.py",
    ),
    Mutant(
        "expected-without-bayes",
        "unseen = 1.0 - p * share",
        "unseen = 1.0 - share",
        "pccem/**/test_expected.py",
    ),
    Mutant(
        "model-offset-sign",
        "sums += self._parts.offset",
        "sums -= self._parts.offset",
        "pccem/**/test_model.py",
    ),
    Mutant(
        "model-learns-from-held-out",
        "return labels, ~held",
        "return labels, held | ~held",
        "pccem/**/test_model.py",
    ),
    Mutant(
        "training-window-not-over",
        "end = as_of - attribution.window",
        "end = as_of",
        "pccem/**/test_training.py",
    ),
    Mutant(
        "drift-ratio-as-odds",
        "return scale_odds(probabilities, odds[campaigns])",
        "return scale_odds(probabilities, factors[campaigns])",
        "pccem/**/test_drift.py",
    ),
)

_EVALUATION = (
    Mutant(
        "gc-n-thin-campaigns",
        "least = POSITIVES_PER_BIN * n if",
        "least = POSITIVES_PER_BIN if",
        "**/test_gc_n.py",
    ),
    Mutant(
        "gc-n-infinite-without-weight",
        "held = self.weights > 0.0\n        if not held.any():",
        "held = self.weights >= 0.0\n        if not held.any():",
        "**/test_gc_n.py",
    ),
    Mutant(
        "cal-n-one-sided",
        "return np.maximum(ratios, quotients(np.asarray(1.0), ratios)) - 1.0",
        "return np.abs(ratios - 1.0)",
        "**/test_cal_n.py",
    ),
    Mutant(
        "cal-n-merges-upwards",
        "into = np.maximum(np.cumsum(actual > 0.0, axis=1) - 1, 0)",
        "into = np.minimum(np.cumsum(actual > 0.0, axis=1), n - 1)",
        "**/test_cal_n.py",
    ),
    Mutant(
        "cal-n-of-n-samples-undefined",
        "np.where(runs.sample_counts >= n, values, np.nan)",
        "np.where(runs.sample_counts > n, values, np.nan)",
        "**/test_cal_n.py",
    ),
    Mutant(
        "runs-over-the-border-of-groups",
        "opens = (p[1:] != p[:-1]) | (g[1:] != g[:-1])",
        "opens = p[1:] != p[:-1]",
        "**/test_gc_n.py",
    ),
    Mutant("auc-ties-lose", "high - 0.5 * (first + last)", "high - last", "**/test_auc.py"),
    Mutant(
        "cs-auc-ties-sign",
        "self.lost + LOST_OF_TIED[ties] * self.tied",
        "self.lost - LOST_OF_TIED[ties] * self.tied",
        "**/test_cs_auc.py",
    ),
    Mutant(
        "log-loss-sure-and-wrong",
        "np.clip(predictions.probabilities[rows], EPSILON, 1.0 - EPSILON)",
        "np.clip(predictions.probabilities[rows], EPSILON, 1.0)",
        "**/test_log_loss.py **/test_losses.py",
    ),
    Mutant(
        "bootstrap-without-replacement",
        "drawn = rng.integers(blocks, size=blocks)",
        "drawn = rng.permutation(blocks)",
        "**/test_paired_bootstrap.py **/test_block_metrics.py",
    ),
    Mutant(
        "bootstrap-blocks-without-weight",
        "held = models[0].weights > 0.0",
        "held = models[0].weights >= 0.0",
        "**/test_paired_bootstrap.py",
    ),
    Mutant(
        "bootstrap-centred-away",
        "drawn + (value - held.mean())",
        "drawn - (value - held.mean())",
        "**/test_paired_bootstrap.py **/test_significance.py",
    ),
    Mutant(
        "streaming-thin-slices",
        ">= positives_per_bin * n",
        ">= positives_per_bin",
        "**/compact/test_log_metrics.py",
    ),
    Mutant(
        "streaming-partial-auc-twice",
        "(2.0 * (last - first))",
        "(last - first)",
        "**/compact/test_log_metrics.py **/test_partial_auc.py",
    ),
    Mutant(
        "streaming-mean-in-the-next-cell",
        "lowest | ((1 << dropped) - 1)",
        "lowest + (1 << dropped)",
        "**/compact/test_score_cells.py",
    ),
    Mutant(
        "auction-price-above-the-bid",
        "np.minimum(price / ranking.click_powers, ranking.bids)",
        "price / ranking.click_powers",
        "**/auction/test_gsp.py",
    ),
    Mutant(
        "auction-mainline-below-the-reserve",
        "floor = max(point.mainline_reserve, point.reserve)",
        "floor = point.mainline_reserve",
        "**/auction/test_gsp.py",
    ),
    Mutant(
        "auction-price-of-the-next-page",
        "following[:-1] = np.where(same, self.rank_scores[1:], 0.0)",
        "following[:-1] = self.rank_scores[1:]",
        "**/auction/test_gsp.py",
    ),
    Mutant(
        "auction-noise-moves-the-mean",
        "noise -= page_mean(noise)",
        "noise += page_mean(noise)",
        "**/auction/test_simulation.py",
    ),
    Mutant(
        "backtest-leaks-the-judged-hour",
        "history = _LogHistory(moment, [before])",
        "history = _LogHistory(moment + 1, [tables])",
        "evaluation/**/test_backtest.py",
    ),
    Mutant(
        "backtest-first-hour-left-out",
        "if hour >= present[0] + window_hours]",
        "if hour > present[0] + window_hours]",
        "evaluation/**/test_backtest.py",
    ),
    Mutant(
        "backtest-method-forgets",
        "self._memory, self.scale, atlas = fitted.memory, fitted.scale, fitted.atlas",
        "self.scale, atlas = fitted.scale, fitted.atlas",
        "evaluation/**/test_backtest_methods.py",
    ),
)

_EVENTS = (
    Mutant(
        "admission-empty-id",
        "if not 0 < len(event_id) <= LONGEST_ID:",
        "if not len(event_id) <= LONGEST_ID:",
        "events/**/test_*admission.py api/**/test_event_refusals.py",
    ),
    Mutant(
        "admission-outcome-counts-its-value",
        "event.score, 1.0, event.outcome)",
        "event.score, event.outcome, event.outcome)",
        "events/**/test_admission.py",
    ),
    Mutant(
        "admission-rejections-out-of-order",
        "insort(self.shown, rejection, key=_INDEX)",
        "self.shown.append(rejection)",
        "events/**/test_*admission.py **/test_event_refusals.py",
    ),
    Mutant(
        "admission-late-conversions-refused",
        'self._times.seconds("occurred_at", event.occurred_at, longer)',
        'self._times.seconds("occurred_at", event.occurred_at)',
        "events/**/test_click_admission.py",
    ),
    Mutant(
        "open-times-an-hour-less",
        "cls(_hour_of(now) - settings.window_hours, now + settings.future_seconds)",
        "cls(_hour_of(now) - settings.window_hours + 1, now + settings.future_seconds)",
        "**/test_open_times.py",
    ),
    Mutant(
        "parsing-one-event-less",
        "if number + len(piece.items) > most:",
        "if number + len(piece.items) >= most:",
        "**/test_parsing.py",
    ),
    Mutant(
        "parsing-empty-lines-are-events",
        "yield _Piece([line for line in text.splitlines() if line.strip()])",
        "yield _Piece(text.splitlines())",
        "**/test_parsing.py api/**/test_events.py",
    ),
    Mutant(
        "refusals-full-is-invalid",
        'Refusal.AFTERWARDS: "late", Refusal.FULL: "full"}',
        'Refusal.AFTERWARDS: "late"}',
        "**/test_refusals.py",
    ),
    Mutant(
        "columns-outcomes-of-other-rows",
        "positives = request.outcomes[chosen]",
        "positives = request.outcomes[: len(scores)]",
        "**/test_columns_events.py",
    ),
)

_STORAGE = (
    Mutant(
        "batch-repeat-counts-again",
        "self._repeats += 1\n            return",
        "self._repeats += 1",
        "**/test_batch.py",
    ),
    Mutant(
        "append-leaves-out-the-next-row",
        "left_out[first + (at - 1) / 4] = true",
        "left_out[first + (at - 1) / 4 + 1] = true",
        "storage/**/test_click_events.py storage/**/test_clicks_exactly_once.py",
    ),
    Mutant(
        "append-key-of-another-request",
        "return { known == fingerprint and 1 or 2, 0, refused }",
        "return { 1, 0, refused }",
        "storage/**/test_event_log.py",
    ),
    Mutant(
        "joined-requests-may-share-ids",
        "_VERY_MANY and not self.batch.shares_ids(batch)",
        "_VERY_MANY",
        "storage/**/test_joined_requests.py",
    ),
    Mutant(
        "joined-duplicates-of-the-next-row",
        "rows[#rows + 1] = row - 1",
        "rows[#rows + 1] = row % 1",
        "storage/**/test_joined_requests.py",
    ),
    Mutant(
        "joined-terms-of-the-first-rows",
        "self.terms |= {first + row: terms",
        "self.terms |= {row: terms",
        "storage/**/test_joined_requests.py",
    ),
    Mutant(
        "append-ids-live-for-ever",
        "redis.call('EXPIRE', set, life)",
        "redis.call('PERSIST', set)",
        "storage/**/test_life.py storage/**/test_event_log.py",
    ),
    Mutant(
        "behaviour-at-the-end-of-the-window",
        "elapsed >= rules.post_click_seconds and AFTERWARDS",
        "elapsed > rules.post_click_seconds and AFTERWARDS",
        "storage/**/test_click_events.py",
    ),
    Mutant(
        "behaviour-of-a-closing-click",
        "is_untimely(at, clicked_at) or not open and CLOSED",
        "is_untimely(at, clicked_at)",
        "storage/**/test_click_events.py storage/**/test_open_clicks.py",
    ),
    Mutant(
        "one-more-click-waited-for",
        "return waiting_for >= rules.max_waiting",
        "return waiting_for > rules.max_waiting",
        "storage/**/test_click_limits.py",
    ),
    Mutant(
        "fold-committed-twice",
        "if (redis.call('HGET', bins, 'folds') or '0') ~= folds then",
        "if false then",
        "storage/**/test_folding.py",
    ),
    Mutant(
        "fold-drops-what-came-meanwhile",
        "redis.call('LTRIM', log, there and pinned or 0, -1)",
        "redis.call('DEL', log)",
        "storage/**/test_folding.py",
    ),
    Mutant(
        "fold-forgets-the-stored-bins",
        "BinsTable.merge((stored, part.table))",
        "part.table",
        "storage/**/test_folding.py storage/**/test_bins_store.py",
    ),
    Mutant(
        "fold-mixes-campaigns-of-blocks",
        "[block.rows + start for block, start in zip(blocks, starts, strict=True)]",
        "[block.rows for block in blocks]",
        "storage/**/test_folding.py storage/**/test_block_run.py storage/**/test_exactly_once.py",
    ),
    Mutant(
        "version-one-more-kept",
        "kept - 1)\nredis.pcall('PUBLISH', channel, version)\nreturn 0",
        "kept)\nredis.pcall('PUBLISH', channel, version)\nreturn 0",
        "storage/**/test_versions.py",
    ),
    Mutant(
        "version-half-written-stays",
        "pipeline.expire(key, STAGED_SECONDS)",
        "pipeline.persist(key)",
        "storage/**/test_versions.py storage/**/test_crashes.py",
    ),
    Mutant(
        "version-published-expires",
        "redis.call('SET', current, version)\nredis.call('PERSIST', staged)",
        "redis.call('SET', current, version)",
        "storage/**/test_versions.py",
    ),
    Mutant(
        "version-of-the-same-moment-superseded",
        'if entry["as_of"] > held["as_of"]:',
        'if entry["as_of"] >= held["as_of"]:',
        "storage/**/test_superseded.py",
    ),
    Mutant(
        "lease-a-thousand-times-as-long",
        "redis.call('SET', KEYS[1], number .. ':' .. ARGV[1], 'PX', ARGV[2])",
        "redis.call('SET', KEYS[1], number .. ':' .. ARGV[1], 'EX', ARGV[2])",
        "storage/**/test_lease.py",
    ),
    Mutant(
        "lease-renewed-for-no-time",
        "return redis.call('PEXPIRE', KEYS[1], ARGV[2])",
        "return 1",
        "storage/**/test_lease.py",
    ),
    Mutant(
        "lease-kept-too-seldom",
        "self._pause = life_seconds / 3",
        "self._pause = life_seconds * 3",
        "worker/**/test_loop.py storage/**/test_lease.py",
    ),
    Mutant(
        "queue-one-longer",
        "if redis.call('LLEN', queued) >= tonumber(limit) then",
        "if redis.call('LLEN', queued) > tonumber(limit) then",
        "storage/**/test_jobs.py",
    ),
    Mutant(
        "closing-click-still-gathers",
        "redis.call('HDEL', prefix .. id, 'open')",
        "-- open",
        "storage/**/test_open_clicks.py storage/**/test_click_events.py",
    ),
    Mutant(
        "closed-click-counted-again",
        "name_of_click(id), id) > 0 then",
        "name_of_click(id), id) >= 0 then",
        "storage/**/test_open_clicks.py storage/**/test_clicks_exactly_once.py",
    ),
    Mutant(
        "conversions-dropped-unread",
        "if redis.sha1hex(table.concat(blocks)) ~= digest then",
        "if #blocks == 0 then",
        "storage/**/test_conversion_log.py",
    ),
)

_WORKER = (
    Mutant(
        "schedule-does-not-wait-for-late-events",
        "closed_hours(now - min(self.settings.refit_delay_seconds, pause))",
        "closed_hours(now)",
        "worker/**/test_loop.py worker/**/test_refits_between_hours.py",
    ),
    Mutant(
        "schedule-same-hour-again",
        "max(closed_hours(last_as_of) + 1, newest - window_hours + 1)",
        "max(closed_hours(last_as_of), newest - window_hours + 1)",
        "worker/**/test_hours.py",
    ),
    Mutant(
        "schedule-version-of-that-moment",
        'if entry["as_of"] <= moment)',
        'if entry["as_of"] < moment)',
        "worker/**/test_hours.py",
    ),
    Mutant(
        "schedule-goes-back-to-the-hour",
        "if newest_hour < newest / SECONDS_PER_HOUR < newest_hour + 1 else None",
        "if newest_hour < newest / SECONDS_PER_HOUR else None",
        "worker/**/test_hours.py",
    ),
    Mutant(
        "refit-without-folding",
        'self.bins.fold()\n        self.advance(Step("evaluating',
        'self.advance(Step("evaluating',
        "worker/**/test_refitting.py worker/**/test_judging.py",
    ),
    Mutant(
        "refit-compares-with-what-saw-the-hour",
        "began, kept = begun_hours(request.as_of) - 1, ",
        "began, kept = begun_hours(request.as_of), ",
        "worker/**/test_guarded_refits.py",
    ),
    Mutant(
        "refit-of-a-few-stands-for-all",
        "whole = request.campaigns is None",
        "whole = True",
        "worker/**/test_refitting.py worker/**/test_loop.py",
    ),
    Mutant(
        "judged-hours-never-again",
        "complete = hours.stop - _EVALUATED_HOURS if again else hours.stop",
        "complete = hours.stop",
        "worker/**/test_refitting.py worker/**/test_refits_between_hours.py",
    ),
    Mutant(
        "jobs-of-a-dead-worker-lost",
        "self._jobs.requeue_running()\n            self._refitter.methods",
        "self._refitter.methods",
        "worker/**/test_loop.py",
    ),
    Mutant(
        "clicks-removed-before-they-are-written",
        "log.write_clicks(self._closed(due))\n            closed += self.clicks.finish_close(due)",
        "closed += self.clicks.finish_close(due)\n            log.write_clicks(self._closed(due))",
        "worker/**/test_closing.py",
    ),
    Mutant(
        "training-given-up-a-crash-too-early",
        "self.models.attempt(target, midnight) <= _MOST_CRASHES",
        "self.models.attempt(target, midnight) < _MOST_CRASHES",
        "worker/**/test_training_loop.py",
    ),
)

_CLICK_LOG = (
    Mutant(
        "closed-click-behaviour-behind-its-window",
        "if 0.0 <= occurred_at - clicked_at < post_click_seconds:",
        "if 0.0 <= occurred_at - clicked_at <= post_click_seconds:",
        "click_log/**/test_closed_click.py",
    ),
    Mutant(
        "settled-before-the-window-is-over",
        "if partition.ends + window <= as_of",
        "if partition.begins + window <= as_of",
        "click_log/**/test_compaction.py click_log/**/test_known.py worker/**/test_refits.py",
    ),
    Mutant(
        "settled-behind-the-window",
        "counts = (delays >= 0.0) & (delays < window)\n    first = np.full(len(table), np.inf)",
        "counts = (delays >= 0.0) & (delays <= window)\n    first = np.full(len(table), np.inf)",
        "click_log/**/test_compaction.py click_log/**/test_known.py worker/**/test_refits.py",
    ),
    Mutant(
        "expired-an-hour-early",
        "if partition and partition.ends <= before}",
        "if partition and partition.begins <= before}",
        "click_log/**/test_expiry.py",
    ),
    Mutant(
        "known-without-the-moment-itself",
        "until = min(behind + window, nextafter(as_of, inf))",
        "until = min(behind + window, as_of)",
        "click_log/**/test_known.py",
    ),
    Mutant(
        "sample-one-more",
        "np.partition(everything, limit - 1)[limit - 1]",
        "np.partition(everything, limit)[limit]",
        "click_log/**/test_sampling.py",
    ),
)

_API = (
    Mutant(
        "columns-levels-swapped",
        "np.where(rows, LEVEL_NUMBERS[CAMPAIGN], shared)",
        "np.where(rows, shared, LEVEL_NUMBERS[CAMPAIGN])",
        "api/**/test_columns_calibrate.py",
    ),
    Mutant(
        "columns-levels-padding",
        "tobytes(), PADDING[-rows & 7])",
        "tobytes(), PADDING[rows & 7])",
        "api/**/test_columns_calibrate.py columns/**/test_*.py",
    ),
    Mutant(
        "columns-ids-of-a-former-list",
        "return self._former(dictionary).rows[ids]",
        "return ids.astype(np.int64)",
        "columns/**/test_campaign_ids.py",
    ),
    Mutant(
        "calibrate-targets-out-of-order",
        "            found[place] = value\n    return found",
        "            found[place] = value\n    return found[::-1]",
        "api/**/test_calibrate.py",
    ),
    Mutant(
        "events-one-broken-refuses-all",
        "if event is not None:\n            indices.append(index)",
        "if event is not None and not rejections.shown:\n            indices.append(index)",
        "api/**/test_event_refusals.py api/**/test_events.py api/**/test_columns_events.py",
    ),
    Mutant(
        "refresher-refused-version-again",
        "elif version is not None and version != self._refused:",
        "elif version is not None:",
        "api/**/test_refresher.py",
    ),
)

_CLIENT = (
    Mutant(
        "client-budget-overdrawn",
        "allowed = self._saved >= 1.0",
        "allowed = self._saved >= 0.0",
        "clients/**/test_retries.py",
    ),
    Mutant(
        "client-backoff-a-step-ahead",
        "self.first_seconds * 2.0 ** min(tries - 1, 60)",
        "self.first_seconds * 2.0 ** min(tries, 60)",
        "clients/**/test_retries.py",
    ),
    Mutant(
        "client-retry-behind-the-deadline",
        "if pause >= self.deadline.left or not self._retries.budget.spend():",
        "if not self._retries.budget.spend():",
        "clients/**/test_retries.py clients/**/test_outages.py",
    ),
    Mutant(
        "client-one-try-less",
        "self.made > self._retries.most",
        "self.made >= self._retries.most",
        "clients/**/test_retries.py clients/**/test_outages.py",
    ),
    Mutant(
        "client-429-is-an-answer",
        "found.status < 500 and found.status != 429",
        "found.status < 500",
        "clients/**/test_retries.py clients/**/test_outages.py",
    ),
    Mutant(
        "client-atlas-without-its-end",
        "whole = (knots[last] == 1.0) & (knots[last - lengths + 1] == 0.0)",
        "whole = knots[last - lengths + 1] == 0.0",
        "clients/**/test_atlas.py clients/**/test_edge_calibrator.py",
    ),
    Mutant(
        "look-up-passes-only-beyond",
        "(self._knots.take(place + half) <= scores)",
        "(self._knots.take(place + half) < scores)",
        "**/test_map_rows.py",
    ),
    Mutant(
        "look-up-of-all-in-the-first-set",
        "self._share_all = bool((lengths == len(knots)).all())",
        "self._share_all = bool((lengths == lengths[:1]).all())",
        "**/test_map_rows.py",
    ),
    Mutant(
        "look-up-values-of-the-first-map",
        "self._segments.take(place + shift, 0)",
        "self._segments.take(place, 0)",
        "**/test_map_rows.py",
    ),
    Mutant(
        "knots-of-maps-that-share-none",
        "most = min(MOST_SETS, len(maps) // 2)",
        "most = min(MOST_SETS, len(maps))",
        "**/test_map_rows.py",
    ),
    Mutant(
        "client-slopes-cut-at-the-pieces",
        "slopes_of(knots[places[start : end + 1]], values[start : end + 1])",
        "slopes_of(knots[places[start:end]], values[start:end])",
        "clients/**/test_atlas.py clients/**/test_edge_calibrator.py",
    ),
    Mutant(
        "client-takes-the-empty-atlas",
        "if version == NO_VERSION != self._label.version:",
        "if version == NO_VERSION == self._label.version:",
        "clients/**/test_edge_calibrator.py",
    ),
    Mutant(
        "client-put-back-in-reverse",
        "self._formed.extendleft(reversed(list(batches)))",
        "self._formed.extendleft(list(batches))",
        "clients/**/test_outbox.py clients/**/test_event_buffer.py",
    ),
    Mutant(
        "client-bytes-unbounded",
        'and numbers["waiting_bytes"] + size <= share * limits.most_bytes',
        "",
        "clients/**/test_outbox.py",
    ),
)

_ACCESS = (
    Mutant(
        "access-scope-not-looked-at",
        "if scope not in caller.scopes:",
        "if False:",
        "api/test_access.py",
    ),
    Mutant(
        "access-unknown-routes-open",
        "            return scope\n    return KeyScope.ADMIN\n",
        "            return scope\n    return None\n",
        "api/test_access.py",
    ),
    Mutant(
        "access-remembered-beyond-the-table",
        "if found is None or found.table is not table or found.until < now:",
        "if found is None:",
        "api/test_access.py",
    ),
    Mutant(
        "access-hot-path-unguarded",
        'self._authorization.admitted(scope["headers"], needed, started)',
        "ANYBODY",
        "api/test_access.py",
    ),
    Mutant(
        "access-limit-taken-twice",
        "if CALLER not in scope:\n                needed",
        "if scope:\n                needed",
        "api/test_access.py",
    ),
    Mutant(
        "access-foreign-campaigns-in-rows",
        "        check_sees(given, request, caller)",
        "        check_sees([], request, caller)",
        "api/test_access.py",
    ),
    Mutant(
        "access-foreign-click-ids",
        "if isinstance(event, Behaviour | Conversion | Click):",
        "if isinstance(event, Behaviour | Conversion):",
        "api/test_access.py",
    ),
    Mutant(
        "access-admin-port-everywhere",
        "if self._admin_port and path.startswith(ADMIN_PATH) and port != self._admin_port:",
        "if self._admin_port and path.startswith(ADMIN_PATH) and port is None:",
        "api/test_access.py",
    ),
    Mutant(
        "keys-secret-not-compared",
        "return key if is_key and is_valid else None",
        "return key if is_valid else None",
        "access/test_keys.py",
    ),
    Mutant(
        "keys-expiry-ignored",
        'return "expired" if expired else "valid"',
        'return "valid"',
        "access/test_keys.py",
    ),
    Mutant(
        "keys-three-of-one-rotation",
        "is_related = old.id == other.replaces or other.id == old.replaces",
        "is_related = old.id == other.replaces",
        "access/test_keys.py",
    ),
    Mutant(
        "keys-damaged-copy-opens",
        "self._replace_table({}, required=True)",
        "self._replace_table({}, required=False)",
        "access/test_key_watch.py",
    ),
    Mutant(
        "keys-from-disk-put-back",
        "            if self._read_from_store:\n",
        "            if True:\n",
        "access/test_key_watch.py",
    ),
    Mutant(
        "audit-end-cut-off", "    if last != head:\n", "    if False:\n", "access/test_audit.py"
    ),
    Mutant(
        "audit-links-not-looked-at",
        "return entry.seq == before.seq + 1 and entry.previous == before.hash",
        "return entry.seq > before.seq",
        "access/test_audit.py",
    ),
    Mutant(
        "audit-written-behind-the-change",
        "            self.record(who, request_id, what, **about)\n            yield\n",
        "            yield\n            self.record(who, request_id, what, **about)\n",
        "access/test_audit.py",
    ),
)

_PENDING = (
    Mutant(
        "pending-never-counted-down",
        "        self._shedder.in_flight -= 1\n        try:\n            answer = pending",
        "        try:\n            answer = pending",
        "api/test_pending_answers.py",
    ),
    Mutant(
        "pending-of-a-body-that-is-announced-to-be-large",
        '_announced(cycle.scope["headers"]) < below',
        "below > 0",
        "api/test_bodies.py",
    ),
    Mutant(
        "pending-not-kept-when-the-caller-has-gone",
        "            answer = pending.answer(awaited)\n            if not (",
        "            if self.transport.is_closing():\n                return\n"
        "            answer = pending.answer(awaited)\n            if not (",
        "api/test_pending_answers.py",
    ),
    Mutant(
        "few-impressions-of-unknown-targets",
        "{*chain.from_iterable(scores)} <= self._known and",
        "True and",
        "events/test_all_at_once.py",
    ),
    Mutant(
        "rows-of-another-hour",
        "rows if one else compress(rows, map(hour.__eq__, hours))",
        "rows if one or True else ()",
        "events/test_all_at_once.py",
    ),
    Mutant(
        "damage-of-another-request-fails-all",
        "elif len(turn.waiting) > 1 and is_damage(failed.__cause__):",
        "elif len(turn.waiting) > 99 and is_damage(failed.__cause__):",
        "storage/test_joined_requests.py",
    ),
    Mutant(
        "held-connection-kept-after-a-time-out",
        "        except BaseException:\n            await self._release(",
        "        except ResponseError:\n            await self._release(",
        "storage/test_held_connections.py",
    ),
    Mutant(
        "held-connection-not-looked-at",
        "if not connection.is_connected or await connection.can_read():",
        "if not connection.is_connected:",
        "storage/test_held_connections.py",
    ),
)

MUTANTS = (
    *_ACCESS,
    *_CALIBRATORS,
    *_POOLED,
    *_GUARD,
    *_PCCEM,
    *_EVALUATION,
    *_EVENTS,
    *_STORAGE,
    *_WORKER,
    *_CLICK_LOG,
    *_API,
    *_PENDING,
    *_CLIENT,
)
