"""What a person looks at: the table before and after, plots, and one page to decide whether to trust a model by."""

from nearcal.reporting import plots
from nearcal.reporting._evaluate import Evaluation, Metric, evaluate
from nearcal.reporting._report import Report, report

__all__ = ["Evaluation", "Metric", "Report", "evaluate", "plots", "report"]
