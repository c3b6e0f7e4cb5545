"""Models whose faults are known."""

import numpy as np

import nearcal as nc


def make(n, seed, kind):
    """Return distributions, responses and features; y is Normal with a scale that grows with x.

    "right": as it is. "wide": everywhere 1.6 times too wide. "places": right on average, too narrow for x > 0.7.
    """
    rng = np.random.default_rng(seed)
    features = {"x": rng.uniform(size=n), "group": rng.choice(["a", "b", "c"], size=n)}
    truth = 1 + (features["x"] > 0.7) * 2.0
    scale = {"right": truth, "wide": 1.6 * truth, "places": np.full(n, 1.5)}[kind]
    return nc.Normal(np.zeros(n), scale), rng.normal(0.0, truth), features


HOSTILE = {
    "title": "</title><script>window.hacked = 1</script> & \"quotes\" 'single' 🦆",
    "method": '"><img src=x onerror="window.hacked = 2"> `${window.hacked = 3}`',
    "feature": "</script><script>window.hacked = 4</script>",
    "category": "<!--<script> & </textarea> é \u2028 \u202e 🏳️‍🌈",
    "long": "very long " * 200,
    "longer": "very long " * 300,
    "response": "<b onmouseover=alert(1)>y</b>",
}


def hostile_report(n=600, **options):
    """Return a report in which every string is hostile, wrong where the hostile feature says so."""
    rng = np.random.default_rng(1)
    value = rng.uniform(size=n)
    category = rng.choice([HOSTILE["category"], HOSTILE["long"], HOSTILE["longer"]], size=n)
    features = {HOSTILE["feature"]: value, HOSTILE["long"]: category, "__proto__": rng.normal(size=n)}
    y = rng.normal(0.0, np.where(value > 0.5, 5.0, 1.0))
    dists = {HOSTILE["method"]: nc.Normal(np.zeros(n), 1.0), HOSTILE["long"]: nc.Normal(np.zeros(n), 1 + 4 * value)}
    return nc.report(dists, y, features=features, title=HOSTILE["title"], response=HOSTILE["response"], **options)
