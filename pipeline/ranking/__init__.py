"""Rankings, judge diagnostics and the report: pure functions from a comparisons table to values, tables and a page.

Reading and writing files is the callers' business.
"""

from pipeline.ranking.breakdowns import Part, breakdowns
from pipeline.ranking.diagnostics import diagnose, doubts
from pipeline.ranking.findings import Diagnostics
from pipeline.ranking.imported import comparisons_from
from pipeline.ranking.panel import Panel, panel
from pipeline.ranking.rankings import rank
from pipeline.ranking.report import report_html, trust, verdict, verdict_of_part
from pipeline.ranking.tables import Basis, diagnostics_table, rankings_table
from pipeline.ranking.values import Ranking, RankingOptions, Standing, Unrankable

__all__ = [
    "Basis",
    "Diagnostics",
    "Panel",
    "Part",
    "Ranking",
    "RankingOptions",
    "Standing",
    "Unrankable",
    "breakdowns",
    "comparisons_from",
    "diagnose",
    "diagnostics_table",
    "doubts",
    "panel",
    "rank",
    "rankings_table",
    "report_html",
    "trust",
    "verdict",
    "verdict_of_part",
]
