"""Reading two logs in step, and comparing their models."""

from dataclasses import dataclass, replace
from pathlib import Path

from app.command_line.compared import Compared
from app.command_line.errors import CommandError
from app.command_line.joined_batches import joined_batches
from app.command_line.log_files import LogColumns
from app.command_line.paired_batches import paired_batches
from app.command_line.percent_bar import percent_bar
from app.command_line.side_batches import SideFile
from evaluation.model_comparison import A, B, compare_models, compared_models
from evaluation.paired_log import MOST_ROWS, PairedLog, PairedRows


@dataclass(frozen=True, slots=True)
class CompareRun:
    """How two models are compared.

    Attributes
    ----------
    columns : of both logs; the score is named by `scores`.
    scores : score column of A and of B.
    id : column that rows are joined by; None where they stand in the same order.
    draws : of campaign-days; 0 for no intervals.
    bias_share : share of the rows that the bias of calibrated losses is fitted on.
    seed : of the draws, of the bias rows and of a sample of rows.
    quiet : whether no progress is shown.
    most_rows : rows that are held; of longer logs a sample is.
    """

    columns: LogColumns
    scores: tuple[str, str]
    id: str | None
    draws: int
    bias_share: float
    seed: int
    quiet: bool
    most_rows: int = MOST_ROWS

    def compare(self, a: Path, b: Path) -> Compared:
        """Two logs, one of each model."""
        ours, theirs = self.file(a, A), self.file(b, B)
        log = self.read(ours, theirs)
        models = compared_models(log, bias_share=self.bias_share, seed=self.seed)
        with percent_bar(f"drawing {log.blocks.unit}", shown=not self.quiet) as reached:
            found = compare_models(
                models,
                draws=self.draws,
                seed=self.seed,
                progress=lambda done, of: reached(done / of),
            )
        names = {A: _named(ours), B: _named(theirs)}
        return Compared(names, log, found, self.seed, self.bias_share)

    def file(self, path: Path, side: str) -> SideFile:
        """A log of one side."""
        score = self.scores[0 if side == A else 1]
        return SideFile(path, replace(self.columns, score=score), side.lower(), self.id)

    def read(self, a: SideFile, b: SideFile) -> PairedLog:
        """The rows of both logs; a `CommandError` where they are not the same impressions."""
        rows = PairedRows(self.most_rows, self.seed)
        batches = paired_batches(a, b) if self.id is None else joined_batches(a, b)
        with percent_bar(f"reading {a.path.name}, {b.path.name}", shown=not self.quiet) as reached:
            for batch in batches:
                rows.add(batch.events, batch.scores_b)
                reached(batch.done)
        log = rows.log()
        _check_classes(log, a.path)
        return log


def _named(file: SideFile) -> str:
    return f"{file.path}, {file.columns.score}"


def _check_classes(log: PairedLog, path: Path) -> None:
    positives, weight = log.sums_a.positives.sum(), log.sums_a.weights.sum()
    if positives in (0.0, weight):
        outcome = int(positives == weight)
        raise CommandError(
            f"{path}: the outcomes of all {log.rows:,} rows are {outcome}: nothing can be ranked or"
            " calibrated with one outcome only"
        )
