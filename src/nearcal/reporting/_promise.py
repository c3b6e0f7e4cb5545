"""Two answers of the verdict: does coverage depend on where a row is, and is it promised."""

import numpy as np

from nearcal.distributions import Distribution
from nearcal.reporting._evaluate import Evaluation
from nearcal.reporting._judgement import SMALL_GAP
from nearcal.reporting._verdict import Answer, Mood

_LARGE_GAP = 0.05  # of coverage, as an average over rows


def conditional_answer(evaluation: Evaluation) -> Answer | None:
    """Say how predictable the misses of the last method are, by measures that need no regions; None without them."""
    last = evaluation["method"].tolist()[-1]
    found = {row["metric"]: row for row in evaluation if row["method"] == last}
    slab, risk = found.get("worst_slab_coverage"), found.get("excess_risk")
    if slab is None:
        return None
    words = ""
    mood: Mood = "plain"
    if risk is not None:
        off = max(float(risk["value"]), 0.0)
        is_seen = off > 2 * np.nan_to_num(risk["se"])
        mood = "good" if not is_seen or off < SMALL_GAP else "fair" if off < _LARGE_GAP else "bad"
        words = (
            f"A classifier that sees where rows are tells misses from hits: coverage is off by {100 * off:.1f} points "
            "on average, at least. "
            if is_seen
            else "A classifier that sees where rows are cannot tell misses from hits. "
        )
    share = 100 * float(slab["value"])
    words += f"In the slab of the space that covers least, a tenth of the rows or more, {share:.1f}% are covered."
    return Answer("Does coverage depend on where a row is?", mood, words)


def promise_answer(dist: Distribution) -> Answer:
    """Say what is promised of the intervals of a distribution."""
    guarantee = getattr(dist, "guarantee", None)
    question = "Is the coverage promised?"
    if guarantee is None:
        return Answer(question, "plain", "No: what these rows show is all that is known.")
    return Answer(question, "good", "Yes. " + str(guarantee).replace("\n", " "))
