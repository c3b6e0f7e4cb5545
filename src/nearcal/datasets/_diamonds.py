"""Prices of 53,940 diamonds."""

from pathlib import Path
from types import MappingProxyType

import numpy as np

from nearcal._table import Table
from nearcal.datasets._tabular import TabularData

FILE = Path(__file__).with_name("diamonds.npz")  # made by scripts/pack_diamonds.py

# what a whole number in the file stands for
UNITS = {"carat": 0.01, "depth": 0.1, "table": 0.1, "price": 1.0, "x": 0.01, "y": 0.01, "z": 0.01}

# from worst to best
GRADES = {
    "cut": ("Fair", "Good", "Very Good", "Premium", "Ideal"),
    "color": ("J", "I", "H", "G", "F", "E", "D"),
    "clarity": ("I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"),
}

_FEATURES = ("carat", "cut", "color", "clarity", "depth", "table", "x", "y", "z")
_DESCRIPTION = """\
Prices in US dollars and attributes of 53,940 round-cut diamonds.

carat is the weight; cut, color and clarity are grades, here from 0 for the worst up; x, y and z are length, width and
depth in mm, 0 where they are missing; depth is 200 z / (x + y), the total depth in per cent, and table the width of the
top in per cent of the widest point.

Origin: the data set "diamonds" of the R package ggplot2, https://ggplot2.tidyverse.org/reference/diamonds.html.
Licence: MIT, Copyright (c) 2020 ggplot2 authors; its text is in diamonds.LICENSE beside the data.
"""


def load_diamonds() -> TabularData:
    """Return the prices and attributes of 53,940 diamonds, the real example of the paper.

    Returns
    -------
    TabularData
        ``X`` of shape (53940, 9): carat, cut, color, clarity, depth, table, x, y, z, with grades as numbers from 0 for
        the worst up; ``y``, the prices in US dollars; ``table``, all ten columns with grades by name.

    Notes
    -----
    The rows are in the order of publication, roughly by price: shuffle before you split. They come from the R package
    ggplot2 under the MIT licence; see ``description``.

    Examples
    --------
    >>> import nearcal as nc
    >>> diamonds = nc.datasets.load_diamonds()
    >>> diamonds
    TabularData(price of 53940 rows, 9 features)
    >>> diamonds.X[0], diamonds.y[0]
    (array([ 0.23,  4.  ,  5.  ,  1.  , 61.5 , 55.  ,  3.95,  3.98,  2.43]), np.float64(326.0))
    >>> next(iter(diamonds.table))["cut"]
    'Ideal'
    """
    with np.load(FILE) as packed:
        codes = {name: packed[name] for name in packed.files}
    # divided, not multiplied: 23 / 100 is the number nearest to 0.23
    numbers = {name: codes[name] / round(1 / unit) for name, unit in UNITS.items()}
    X = np.column_stack([numbers[name] if name in numbers else codes[name] for name in _FEATURES])
    y = numbers["price"]
    for array in (X, y):
        array.flags.writeable = False
    grades = {name: np.array(levels)[codes[name]] for name, levels in GRADES.items()}
    columns = ("carat", "cut", "color", "clarity", "depth", "table", "price", "x", "y", "z")
    table = Table({name: numbers[name] if name in numbers else grades[name] for name in columns})
    return TabularData(X, y, _FEATURES, "price", MappingProxyType(GRADES), table, _DESCRIPTION)
