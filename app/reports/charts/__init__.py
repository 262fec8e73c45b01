"""Every chart of the reports, in one place to import from."""

from app.reports.charts.bars import bars_chart
from app.reports.charts.differences import differences_chart
from app.reports.charts.lines import lines_chart
from app.reports.charts.quantiles import quantile_chart
from app.reports.charts.ratios import ratios_by_name_chart, ratios_over_time_chart
from app.reports.charts.reliability import reliability_chart

__all__ = [
    "bars_chart",
    "differences_chart",
    "lines_chart",
    "quantile_chart",
    "ratios_by_name_chart",
    "ratios_over_time_chart",
    "reliability_chart",
]
