"""Tables in Markdown, and numbers of several seeds in them."""

from collections.abc import Mapping, Sequence

import numpy as np

Values = dict[str, dict[str, list[float]]]  # by method and measure, one number a seed


def markdown_table(columns: Mapping[str, Sequence[str]]) -> str:
    """Return a table of columns, the first aligned to the left, the others to the right.

    Examples
    --------
    >>> print(markdown_table({"Model": ["Linear", "Local"], "MSE": ["14585", "257"]}))
    | Model  |   MSE |
    |:-------|------:|
    | Linear | 14585 |
    | Local  |   257 |
    """
    widths = [max(3, len(name), *(len(cell) for cell in cells)) for name, cells in columns.items()]
    lines = [list(columns), *(list(row) for row in zip(*columns.values(), strict=True))]
    texts = [_line([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]) for line in lines]
    rule = "|".join(["", ":" + "-" * (widths[0] + 1), *("-" * (width + 1) + ":" for width in widths[1:]), ""])
    return "\n".join([texts[0], rule, *texts[1:]])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def mean_and_sd(values: Sequence[float], digits: int) -> str:
    """Return "mean (sd)" of a value over seeds, the mean alone where there is one seed.

    Examples
    --------
    >>> mean_and_sd([1.0, 2.0, 3.0], 2), mean_and_sd([1.0], 1)
    ('2.00 (1.00)', '1.0')
    """
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) < 2 else f"{mean} ({np.std(values, ddof=1):.{digits}f})"


def count(things: Sequence[object], name: str) -> str:
    """Return how many there are, in words.

    Examples
    --------
    >>> count([0, 1, 2], "seed"), count([0], "seed")
    ('3 seeds', '1 seed')
    """
    return f"{len(things)} {name}{'' if len(things) == 1 else 's'}"


def collect(seeds: Sequence[Mapping[str, Mapping[str, float]]]) -> Values:
    """Return, by method and measure, one number a seed.

    Examples
    --------
    >>> collect([{"base": {"mse": 1.0}}, {"base": {"mse": 3.0}}])
    {'base': {'mse': [1.0, 3.0]}}
    """
    return {
        method: {measure: [seed[method][measure] for seed in seeds] for measure in measures}
        for method, measures in seeds[0].items()
    }


def means(values: Values) -> dict[str, dict[str, float]]:
    """Return the means over seeds."""
    return {
        method: {measure: float(np.mean(numbers)) for measure, numbers in measures.items()}
        for method, measures in values.items()
    }
