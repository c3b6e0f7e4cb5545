"""The kernels that compute addresses, at pages that nobody may touch: a wrong bound kills a process of its own."""

import os
import signal
import subprocess
import sys

import pytest

from nearcal.kernels import vector

if os.name != "posix":
    pytest.skip("needs mprotect", allow_module_level=True)

from numba.extending import _Intrinsic

from tests.fuzz.guarded import ATTACKS

SEARCHES = {"search": 25, "thinned_search": 1}  # and their cases
OPERATIONS = [name for name in ATTACKS if name not in SEARCHES]
# an index of 300,000 points takes a second
MOST_CASES = {"thinned_search": 20}


def run(subjects, *numbers):
    command = [sys.executable, "-m", "tests.fuzz.guarded", subjects, *map(str, numbers)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


def test_every_operation_is_a_subject():
    assert {name for name, value in vars(vector).items() if isinstance(value, _Intrinsic)} == set(OPERATIONS)


@pytest.mark.parametrize("subjects", [",".join(OPERATIONS), *SEARCHES])
def test_bounds(subjects, request, record_property):
    """Cases share a process, which says the number of each before it is done."""
    effort, seed, only = (request.config.getoption(name) for name in ("--fuzz", "--fuzz-seed", "--fuzz-case"))
    cases = min(SEARCHES.get(subjects, 50) * effort, MOST_CASES.get(subjects, 2000))
    done = run(subjects, seed, *((0, cases) if only is None else (only, only + 1)))
    record_property("fuzz", (f"guarded {subjects}", len(done.stdout.splitlines()), int(done.returncode != 0)))
    last = done.stdout.splitlines()[-1].split() if done.stdout else ["?", "?"]
    assert done.returncode == 0, (
        f"{last[0]}: again by --fuzz-seed {seed} --fuzz-case {last[1]}; it ended with {done.returncode}\n{done.stderr}"
    )


@pytest.mark.parametrize("subject", ["sum_squares", "score_strip", "mark_strip"])
def test_a_wrong_bound_is_seen(subject):
    """Columns too many to read, or a row too few to write to, at the end of an array that ends at the guard."""
    assert run(subject, 0, 0, 1, 1).returncode in (-signal.SIGSEGV, -signal.SIGBUS)


def test_a_write_beside_an_array_is_seen():
    """The same where an array begins at the guard: what follows it may be written, and shows."""
    done = run("mark_strip", 0, 0, 1, 2)
    assert done.returncode == 1
    assert "written beside an array" in done.stderr
