"""Every chart of the reports, in one place to import from."""

from app.reports.bars_chart import bars_chart
from app.reports.differences_chart import differences_chart
from app.reports.lines_chart import lines_chart
from app.reports.quantile_chart import quantile_chart
from app.reports.ratios_by_name_chart import ratios_by_name_chart
from app.reports.ratios_over_time_chart import ratios_over_time_chart
from app.reports.reliability_chart import reliability_chart

__all__ = [
    "bars_chart",
    "differences_chart",
    "lines_chart",
    "quantile_chart",
    "ratios_by_name_chart",
    "ratios_over_time_chart",
    "reliability_chart",
]
