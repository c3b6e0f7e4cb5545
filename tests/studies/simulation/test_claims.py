"""Claims follow from numbers: made-up results for which all hold, and the same turned round."""

import pytest
from nearcal.studies.simulation._claims import judge_claims
from nearcal.studies.simulation._results import METRICS, pool

SIZES = (10_000, 100_000)
LAYERS = {"input": 20, "fourth": 5, "fifth": 5, "output": 1}


def make_rows(gain):
    """Return rows in which local recalibration divides the network's MSE by a factor that grows with ``gain``."""
    rows = []
    for place, n in enumerate(SIZES):
        for network, mse in (("small", 10.0), ("big", 3.0)):
            shared = {"n": n, "network": network, "seed": 0}
            rows += [row(shared, method, mse, 1.0) for method in ("network", "isotonic", "density")]
            for layer in LAYERS:
                for k in (100, 500, 1000):
                    for eps in (0.0, 1.0):
                        strength = gain * (0.1 + 0.1 * place) * (2 if network == "small" else 1)
                        ratio = (1 - strength) * (1 + gain * 1.0 / k)
                        costs = {
                            "predict_microseconds": (100.0 + k) * (1 - 0.5 * gain * eps),
                            "coverage_error": gain / k,
                        }
                        setting = {"layer": layer, "k": k, "eps": eps}
                        rows.append(row({**shared, **setting}, "local", mse * ratio, ratio) | costs)
        for k in (100, 500, 1000):
            rows.append(
                row({"n": n, "network": "none", "seed": 0, "layer": "input", "k": k, "eps": 0.0}, "neighbors", 90, 1)
            )
    return rows


def row(shared, method, mse, ratio):
    numbers = dict.fromkeys(METRICS, 1.0) | {"mse": mse, "train_seconds": shared["n"] / 1000, "fit_seconds": 0.1}
    numbers |= {f"relative_{score}": ratio for score in ("mse", "crps", "interval_score")}
    return {**shared, "method": method, **numbers}


def judge(gain, memory=2.0):
    rows = make_rows(gain)
    results = {
        "methods": pool(rows, ("n", "network", "method")),
        "settings": pool([r for r in rows if "layer" in r], ("n", "network", "method", "layer", "k", "eps")),
        "training": [],
        "costs": [{"n": n, "cpu_seconds": 10.0, "kinds": {"neighbors": {"cpu_seconds": 1.0}}} for n in SIZES],
        "memory": [
            {"rows": m, "k": 1000, "formula": float(m), "held": memory * m, "chunked": 5.0} for m in (100, 1000)
        ],
    }
    return {claim.text.split(" ", 1)[1][:40]: claim.verdict for claim in judge_claims(results)}


def verdict(verdicts, part):
    (found,) = [value for text, value in verdicts.items() if part in text]
    return found


@pytest.mark.parametrize(
    ("part", "with_gain", "with_loss"),
    [
        ("improves the networks' MSE", "holds", "does not hold"),
        ("improves MSE over the other", "holds", "does not hold"),
        ("has the larger impact on the smaller", "holds", "does not hold"),
        ("network benefits the most", "holds", "does not hold"),
        ("consistently yields superior", "holds", "does not hold"),
        ("nearest samples improve the big", "holds", "does not hold"),
        ("target layer has little influence", "holds", "holds"),
        ("level of approximation has little", "holds", "holds"),
        ("of the recalibrated models is more", "holds", "does not hold"),
        ("does not significantly affect training", "holds", "holds"),
        ("search takes longer than approximate", "holds", "does not hold"),
        ("time increases with k", "holds", "holds"),
        ("time decreases with the dimension", "does not hold", "does not hold"),
        ("of prediction grows in O(n)", "holds partly", "holds partly"),
        ("regression takes up to two thirds", "does not hold", "does not hold"),
    ],
)
def test_verdicts_follow_the_numbers(part, with_gain, with_loss):
    assert verdict(judge(1.0), part) == with_gain
    assert verdict(judge(-1.0), part) == with_loss


def test_memory_that_does_not_grow_contradicts_the_formula():
    assert verdict(judge(1.0, memory=0.0), "of prediction grows in O(n)") == "does not hold"


def test_no_rows_no_claims():
    assert judge_claims({"methods": [], "settings": [], "training": [], "costs": [], "memory": []}) == []
