"""The report: one page for the person who must decide whether to trust a model."""

from nearcal.reporting._report import Report, report

__all__ = ["Report", "report"]
