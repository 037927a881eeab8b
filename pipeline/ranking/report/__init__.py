"""The report: one self-contained page for a person. No script, no network; every text from outside is escaped."""

from pipeline.ranking.report.judges import trust
from pipeline.ranking.report.page import report_html
from pipeline.ranking.report.standings import verdict, verdict_of_part

__all__ = ["report_html", "trust", "verdict", "verdict_of_part"]
