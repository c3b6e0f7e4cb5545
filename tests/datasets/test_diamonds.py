"""The diamonds are those of ggplot2."""

import numpy as np
import pytest

import nearcal as nc

DIAMONDS = nc.datasets.load_diamonds()


def test_known_figures():
    # R: library(ggplot2); dim(diamonds); colMeans(diamonds[c("carat", "depth", "table", "price", "x", "y", "z")])
    X, y = DIAMONDS.X, DIAMONDS.y
    assert X.shape == (53_940, 9)
    assert DIAMONDS.feature_names == ("carat", "cut", "color", "clarity", "depth", "table", "x", "y", "z")
    means = dict(zip(DIAMONDS.feature_names, X.mean(axis=0), strict=True))
    expected = {"carat": 0.7979397, "depth": 61.7494049, "table": 57.4571839}
    expected |= {"x": 5.7311572, "y": 5.7345260, "z": 3.5387338}
    for name, mean in expected.items():
        assert means[name] == pytest.approx(mean, abs=5e-8)
    assert y.mean() == pytest.approx(3932.799722, abs=5e-7)


def test_grades_follow_their_names():
    # R: table(diamonds$cut), table(diamonds$color), table(diamonds$clarity)
    counts = {
        "cut": {"Fair": 1610, "Good": 4906, "Very Good": 12082, "Premium": 13791, "Ideal": 21551},
        "color": {"D": 6775, "E": 9797, "F": 9542, "G": 11292, "H": 8304, "I": 5422, "J": 2808},
        "clarity": {
            "I1": 741,
            "SI2": 9194,
            "SI1": 13065,
            "VS2": 12258,
            "VS1": 8171,
            "VVS2": 5066,
            "VVS1": 3655,
            "IF": 1790,
        },
    }
    for name, known in counts.items():
        grades, found = np.unique(DIAMONDS.table[name], return_counts=True)
        assert dict(zip(grades.tolist(), found.tolist(), strict=True)) == known
        codes = DIAMONDS.X[:, DIAMONDS.feature_names.index(name)].astype(int)
        np.testing.assert_array_equal(np.array(DIAMONDS.categories[name])[codes], DIAMONDS.table[name])


def test_numbers_are_the_decimal_ones():
    first = next(iter(DIAMONDS.table))
    assert list(first) == ["carat", "cut", "color", "clarity", "depth", "table", "price", "x", "y", "z"]
    assert list(first.values()) == [0.23, "Ideal", "E", "SI2", 61.5, 55.0, 326.0, 3.95, 3.98, 2.43]
    for name in ("carat", "depth", "table", "x", "y", "z"):
        values = np.unique(DIAMONDS.table[name]).tolist()
        assert values == [float(f"{value:.2f}") for value in values]
    assert DIAMONDS.X[0].tolist() == [0.23, 4.0, 5.0, 1.0, 61.5, 55.0, 3.95, 3.98, 2.43]


def test_frozen():
    with pytest.raises(ValueError, match="read-only"):
        DIAMONDS.X[0, 0] = 1.0
    with pytest.raises(AttributeError):
        DIAMONDS.y = None
    with pytest.raises(TypeError):
        DIAMONDS.categories["cut"] = ()
    assert "MIT" in DIAMONDS.description
