"""`sirocco evaluate`."""

from app.command_line import options
from app.command_line.canvas import check_picture
from app.command_line.judged import Judged
from app.command_line.judged_hours import RAW
from app.command_line.log_files import LogColumns, read_log
from app.command_line.report import report


def evaluate(
    log: options.Log,
    picture: options.OptionalPicture = None,
    json: options.Json = False,
    score: options.ScoreColumn = "score",
    outcome: options.OutcomeColumn = "outcome",
    campaign: options.CampaignColumn = "campaign",
    time: options.TimeColumn = "time",
    bid: options.BidColumn = "bid",
) -> None:
    """Measure the scores of a log as they are: how far off are they?

    Prints calibration (PCOC, GC-N), log loss and ranking (AUC) of the scores.

    [bold]Examples[/bold]

      sirocco evaluate log.parquet
      sirocco evaluate clicks.csv.gz --score pctr --picture reliability.png --json
    """
    if picture is not None:
        check_picture(picture)
    events = read_log(log, LogColumns(score, outcome, campaign, time, bid))
    judged = Judged(events, {RAW: events.scores})
    report(judged, log.name, "scores as they are", picture=picture, as_json=json)
