"""Loads artefacts and uses them, in a process of its own: one that a file can take down without taking the tests along.

Reads lines of JSON with ``path`` and ``d``, the dimensions of the space; answers each by a line: a digest of all that
the content says, ``refused`` by an error of nearcal's, or ``defect`` and what happened instead.
"""

import hashlib
import json
import os
import resource
import sys
import traceback
import warnings
from pathlib import Path

import numpy as np

import nearcal as nc
from nearcal.models import CalibratedModel, Recalibration
from nearcal.persistence import read
from tests.persistence.cases import answers, answers_of_stream

ROOM = 2**31  # bytes beyond what the process has when it is ready


def use(artefact, d):
    """Return all that an artefact says, as bytes."""
    content = artefact.content
    said = str(artefact.tuning).encode()
    if isinstance(content, CalibratedModel):
        rng = np.random.default_rng(3)
        x, other = rng.uniform(-2, 2, size=9), rng.normal(size=9)
        out = content.predict({"mu": rng.normal(size=9), "x": x, "other": other})
        said += out.mean().tobytes() + out.ppf([0.1, 0.9]).tobytes() + str(content).encode()
    if isinstance(content, nc.OnlineRecalibrator | nc.CalibrationMonitor):
        return said + repr(content).encode() + answers_of_stream(content)
    if isinstance(content, CalibratedModel | Recalibration):
        said += f"{content.reason} {content.layer}".encode()
        content = content.recalibrator
    if getattr(content, "n_features_in_", d) != d:  # then positions of d columns must be refused
        content.recalibrate(nc.Normal(np.zeros(9), 1.0), np.zeros((9, d)))
        raise AssertionError(f"{d} columns are taken for {content.n_features_in_}")
    said += repr(content).encode()
    return said + answers(content, d) if hasattr(content, "recalibrate") else said  # a table may be saved as well


def answer(path, d):
    """Return one word, and what happened where it should not have."""
    try:
        return hashlib.sha256(use(read(path), d)).hexdigest(), ""
    except nc.NearcalError:
        return "refused", ""
    except Exception:
        return "defect", traceback.format_exc(limit=-6)


def limit_memory():
    """Let the process have so much more than it has now."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (size + ROOM, size + ROOM))


def main():
    """Answer until there are no more lines."""
    warnings.simplefilter("ignore")  # forged numbers overflow
    is_limited = not sys.platform.startswith("linux")
    for line in sys.stdin:
        asked = json.loads(line)
        if asked.get("ready") and not is_limited:
            limit_memory()
            is_limited = True
        word, trace = ("ready", "") if asked.get("ready") else answer(asked["path"], asked["d"])
        print(json.dumps([word, trace]), flush=True)


if __name__ == "__main__":
    main()
