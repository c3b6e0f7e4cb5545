"""What a person looks at: the table before and after, plots, and one page to decide whether to trust a model by.

Not named after :func:`nearcal.report`: importing a package of that name would put itself in the function's place.
"""

from nearcal.reporting import plots
from nearcal.reporting._evaluate import (
    Evaluation,
    EvaluationPlan,
    Metric,
    evaluate,
    judge_all,
    judge_rows,
    plan_evaluation,
)
from nearcal.reporting._report import Report, report

__all__ = [
    "Evaluation",
    "EvaluationPlan",
    "Metric",
    "Report",
    "evaluate",
    "judge_all",
    "judge_rows",
    "plan_evaluation",
    "plots",
    "report",
]
