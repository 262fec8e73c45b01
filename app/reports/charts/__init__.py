"""Every chart of the reports, in one place to import from."""

from app.reports.charts.by_name import bars_chart, differences_chart
from app.reports.charts.by_score import quantile_chart, reliability_chart
from app.reports.charts.over_time import lines_chart, ratios_by_name_chart, ratios_over_time_chart

__all__ = [
    "bars_chart",
    "differences_chart",
    "lines_chart",
    "quantile_chart",
    "ratios_by_name_chart",
    "ratios_over_time_chart",
    "reliability_chart",
]
