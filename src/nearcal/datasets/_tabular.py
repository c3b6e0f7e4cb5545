"""A table of inputs and a response, with the names of its columns."""

from collections.abc import Mapping
from dataclasses import dataclass

from nearcal._arrays import FloatArray
from nearcal._table import Table


@dataclass(frozen=True, eq=False, repr=False)
class TabularData:
    """Inputs and responses of a regression problem.

    Attributes
    ----------
    X : ndarray of shape (n, d)
        Inputs; graded ones as their place in the order of ``categories``.
    y : ndarray of shape (n,)
        Responses.
    feature_names : tuple of str
        Names of the columns of X.
    target_name : str
        Name of the response.
    categories : mapping of str to tuple of str
        The grades of each graded input, in increasing order.
    table : Table
        All columns as they were published, grades by name.
    description : str
        Origin and licence.
    """

    X: FloatArray
    y: FloatArray
    feature_names: tuple[str, ...]
    target_name: str
    categories: Mapping[str, tuple[str, ...]]
    table: Table
    description: str

    def __repr__(self) -> str:
        n, d = self.X.shape
        return f"TabularData({self.target_name} of {n} rows, {d} features)"
