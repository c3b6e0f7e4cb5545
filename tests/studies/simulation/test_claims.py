"""Claims follow from numbers: made-up results for which all hold, and for every claim one change that refutes it."""

import pytest

from nearcal_studies.claims import verdict
from nearcal_studies.simulation.claims import judge_claims
from nearcal_studies.simulation.results import METRICS, pool

SIZES = (10_000, 100_000)
LAYERS = {"input": 20, "fourth": 200, "fifth": 5, "output": 1}
RIGHT = {
    "gain": 1.0,  # local recalibration divides the network's MSE by a factor that grows with it
    "small": (10.0, 10.0),  # MSE of the small network at the two sizes
    "by_layer": 0.0,  # MSE grows with the place of the layer
    "by_eps": 0.0,  # and with ε
    "error_by_n": -1.0,  # exponents of the error of coverage
    "error_by_k": -1.0,
    "training_by_n": 1.0,  # exponent of training time
    "fitting": 1e-3,  # seconds
    "alone": 1e-3,  # microseconds of the network itself
    "time_by_k": 1.0,  # microseconds of a neighbour
    "time_by_width": -1.0,  # exponent
    "time_by_eps": -0.5,
    "neighbors": (90.0, 1e4),  # MSE and microseconds of kNN regression
    "share": 0.7,  # of the study's time
    "held": 2.0,  # memory relative to the formula's
    "chunked": 1.0,
}


def make_rows(world):
    """Return the rows of a world in which the paper is right, or wrong in what was changed."""
    for place, n in enumerate(SIZES):
        for network, mse in (("small", world["small"][place]), ("big", 3.0)):
            error = n ** world["error_by_n"]
            shared = {
                "n": n,
                "network": network,
                "seed": 0,
                **dict.fromkeys(METRICS, 1.0),
                "train_seconds": n ** world["training_by_n"],
                "fit_seconds": world["fitting"],
                "predict_microseconds": world["alone"],
                "coverage_error": error,
            }
            for method in ("network", "isotonic", "density"):
                yield {**shared, "method": method, "mse": mse}
            strength = world["gain"] * (0.1 + 0.1 * place) * (2 if network == "small" else 1)
            for number, (layer, width) in enumerate(LAYERS.items()):
                for k in (100, 500, 1000):
                    for eps in (0.0, 1.0):
                        ratio = (1 - strength) * (1 + world["gain"] / k)
                        ratio *= (1 + world["by_layer"] * number) * (1 + world["by_eps"] * eps)
                        time = (100 + world["time_by_k"] * k) * width ** world["time_by_width"]
                        yield {
                            **shared,
                            "method": "local",
                            "layer": layer,
                            "k": k,
                            "eps": eps,
                            "mse": mse * ratio,
                            **{f"relative_{score}": ratio for score in ("mse", "crps", "interval_score")},
                            "predict_microseconds": time * (1 + world["time_by_eps"] * eps),
                            "coverage_error": error * k ** world["error_by_k"],
                        }
        mse, time = world["neighbors"]
        about = {**shared, "network": "none", "method": "neighbors", "layer": "input", "k": 100, "eps": 0.0}
        yield {**about, "mse": mse, "predict_microseconds": time}


def judge(**changes):
    world = {**RIGHT, **changes}
    rows = list(make_rows(world))
    results = {
        "methods": pool(rows, ("n", "network", "method")),
        "settings": pool([r for r in rows if "layer" in r], ("n", "network", "method", "layer", "k", "eps")),
        "costs": [{"n": n, "cpu_seconds": 1.0, "kinds": {"neighbors": {"cpu_seconds": world["share"]}}} for n in SIZES],
        "memory": [
            {"rows": m, "k": 1000, "formula": float(m), "held": world["held"] * m, "chunked": world["chunked"] * m}
            for m in (100, 1000)
        ],
    }
    return judge_claims(results)


CHANGES = [
    ("Recalibration improves the networks' MSE", {"gain": -1.0}),
    ("Recalibration improves MSE over the other", {"gain": -1.0}),
    ("Recalibration has the larger impact on the smaller", {"gain": -1.0}),
    ("The smaller network benefits the most", {"gain": -1.0}),
    ("The small network's low capacity keeps", {"small": (10.0, 1.5)}),
    ("Even where more data no longer helps", {"gain": -1.0}),
    ("Recalibration consistently yields superior", {"gain": -1.0}),
    ("More nearest samples improve the big", {"gain": -1.0}),
    ("The target layer has little influence", {"by_layer": 0.1}),
    ("The level of approximation has little", {"by_eps": 0.1}),
    ("All models become more reliable", {"error_by_n": 1.0}),
    ("Coverage of the recalibrated models is more", {"error_by_k": 1.0}),
    ("Recalibration does not significantly affect training", {"fitting": 1e5}),
    ("Training time is primarily influenced", {"training_by_n": -1.0}),
    ("Recalibration significantly affects prediction", {"alone": 1e4}),
    ("Exact search takes longer than approximate", {"time_by_eps": 0.5}),
    ("Prediction time increases with k", {"time_by_k": -0.05}),
    ("Prediction time decreases with the dimension", {"time_by_width": 1.0}),
    ("Memory of prediction grows in O(n)", {"held": 0.0, "chunked": 0.0}),
    ("kNN regression does not compare with recalibration in performance", {"neighbors": (1.0, 1e4)}),
    ("kNN regression does not compare with recalibration in computational", {"neighbors": (90.0, 1.0)}),
    ("kNN regression takes up to two thirds", {"share": 0.1}),
]


@pytest.mark.parametrize(("part", "changes"), CHANGES)
def test_every_claim_can_be_refuted(part, changes):
    for claims, expected in ((judge(), "holds"), (judge(**changes), "does not hold")):
        (checks,) = [checks for sentence, checks in claims.items() if part in sentence]
        assert verdict(checks) == expected


def test_every_claim_is_tested():
    assert len(judge()) == len(CHANGES)


def test_memory_in_chunks_contradicts_half_of_the_formula():
    (checks,) = [checks for sentence, checks in judge(chunked=0.0).items() if "Memory" in sentence]
    assert verdict(checks) == "holds partly"


def test_no_rows_no_claims():
    assert judge_claims({"methods": [], "settings": [], "training": [], "costs": [], "memory": []}) == {}
