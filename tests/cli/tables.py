"""What the tests of the command share: tables of predictions, in memory and in files of every format."""

import numpy as np
import pyarrow as pa
from pyarrow import csv, feather, parquet
from scipy.special import ndtri

LEVELS = (0.05, 0.5, 0.95)
FORMATS = ("parquet", "csv", "feather")


def make_table(rows, seed):
    """Return predictions that are right on average and too sure where h2 is large."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(rows, 2))
    mu, sigma = hidden[:, 0], rng.uniform(0.5, 1.5, size=rows)
    columns = {"id": [f"{i:05d}" for i in range(rows)], "mu": mu, "sigma": sigma}
    columns["price"] = rng.normal(mu, sigma * np.exp(hidden[:, 1] / 2))
    columns |= {"h1": hidden[:, 0], "h2": hidden[:, 1], "city": rng.choice(["Bonn", "Kiel"], size=rows)}
    columns |= {f"q{round(100 * p):02d}": mu + sigma * ndtri(p) for p in LEVELS}
    columns |= {f"draw_{i}": rng.normal(mu, sigma) for i in range(5)}
    columns |= {"shape": np.where(hidden[:, 1] > 0, 2.0, 3.0), "mean": np.exp(mu), "paid": np.exp(mu) * sigma}
    return pa.table(columns)


def write_table(table, path):
    """Write a table in the format its suffix says."""
    write = {".parquet": parquet.write_table, ".csv": csv.write_csv, ".feather": feather.write_feather}
    write[path.suffix](table, str(path))
    return path


def read_table(path):
    """Read a table back, as columns of numpy."""
    readers = {".parquet": parquet.read_table, ".csv": csv.read_csv}
    table = readers.get(path.suffix, feather.read_table)(str(path))
    return {name: table[name].to_numpy() for name in table.column_names}


NORMAL = ("--family", "normal", "--param", "loc=mu", "--param", "scale=sigma")
