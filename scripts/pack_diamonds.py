"""Pack ggplot2's diamonds.csv into the file that the package ships.

    python scripts/pack_diamonds.py diamonds.csv

The csv is data-raw/diamonds.csv of https://github.com/tidyverse/ggplot2, plain or gzipped. Decimal numbers become
whole ones (carat 0.23 is 23 hundredths), grades their place in the order from worst to best.
"""

import csv
import gzip
import sys
from pathlib import Path

import numpy as np

from nearcal.datasets._diamonds import FILE, GRADES, UNITS


def main():
    """Read, check that nothing is lost, write."""
    path = Path(sys.argv[1])
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        rows = list(csv.DictReader(lines))
    packed = {}
    for name, unit in UNITS.items():
        values = np.array([float(row[name]) for row in rows])
        packed[name] = np.round(values / unit).astype(np.uint16)
        assert np.allclose(packed[name] * unit, values, rtol=0, atol=unit * 1e-6)
    for name, grades in GRADES.items():
        packed[name] = np.array([grades.index(row[name]) for row in rows], dtype=np.uint8)
    np.savez_compressed(FILE, **packed)
    print(f"{FILE}: {len(rows)} rows, {FILE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
