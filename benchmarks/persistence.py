"""Saving and loading a million points of 20 columns: our own file against the package safetensors.

    python benchmarks/persistence.py

Every measurement runs in three fresh processes, of which the median counts. Writes results/persistence.json.
"""

import json
import mmap
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from timing import save

from nearcal._atomic import replacing
from nearcal.persistence._file import read_file, write_file

SHAPE = (1_000_000, 20)
ROUNDS = 3


def save_ours(path, points):
    """Write manifest, checksums and arrays; the file appears at once when it is on the disk."""
    with replacing(path) as file:
        write_file(file, {}, {"points": points})


def save_theirs(path, points):
    """Write with safetensors' writer, made as safe by the same means: another name, the disk, then the name."""
    from safetensors.numpy import save_file

    with replacing(path) as file:
        save_file({"points": points}, file.name, {"manifest": "{}"})


def load_ours_mapped(path):
    """Map the file, and read it once for its checksum."""
    return read_file(path, verify=True)[1]


def load_ours_unverified(path):
    """Map the file."""
    return read_file(path, verify=False)[1]


def load_ours_copied(path):
    """Read everything into memory, and compute its checksum there."""
    return read_file(path, verify=True, is_mapped=False)[1]


def load_theirs(path):
    """Load with safetensors' reader, which has no checksums."""
    from safetensors.numpy import load_file

    return load_file(path)


SAVES = (save_ours, save_theirs)
LOADS = (load_ours_mapped, load_ours_unverified, load_ours_copied, load_theirs)


def measure_save(function, path):
    """Seconds, and the peak of memory above the array itself."""
    points = np.random.default_rng(0).normal(size=SHAPE)
    before, start = _peak(), time.perf_counter()
    function(path, points)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "megabytes more at the peak": _peak() - before, "bytes": path.stat().st_size}


def measure_load(function, path):
    """Seconds until the arrays are there, until each page was touched, and memory of this process alone after that."""
    _touch(np.zeros((1000, 20)))
    before, start = _own_memory(), time.perf_counter()
    points = function(path)["points"]
    seconds = time.perf_counter() - start
    _touch(points)
    return {
        "seconds": seconds,
        "seconds with one pass": time.perf_counter() - start,
        "megabytes of its own": _own_memory() - before,
        "is mapped and shared": _is_mapped(points),
        "starts at a cache line": points.ctypes.data % 64 == 0,
    }


def _touch(points):
    return points[::16].sum()


def _is_mapped(array):
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array.obj if isinstance(array, memoryview) else array, mmap.mmap)


def _peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def _own_memory():
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon")]
    return int(line.split()[1]) * 1024 / 1e6


def fresh(name, path):
    """Run one measurement three times, each in a fresh process; the medians."""
    command = [sys.executable, __file__, name, str(path)]
    results = []
    for _ in range(ROUNDS):
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        results.append(json.loads(done.stdout))
    median = {key: statistics.median(result[key] for result in results) for key in results[0]}
    print(name, median, flush=True)
    return median


def main():
    """Run the measurement named on the command line, or all."""
    if len(sys.argv) > 1:
        function, path = globals()[sys.argv[1]], Path(sys.argv[2])
        print(json.dumps((measure_save if function in SAVES else measure_load)(function, path)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "points"
        order = (save_theirs, save_ours, *LOADS)  # the loads read what ours has written
        content = {function.__name__: fresh(function.__name__, path) for function in order}
    save("persistence", {"shape": SHAPE, **content})


if __name__ == "__main__":
    main()
