"""Kernels against their slow twins over extreme arrays; with ``--fuzz 2`` and more, under numba's bounds checks."""

import importlib
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

import nearcal.kernels
from tests.fuzz.kernels import ATTACKS


def _called_by_python(function):
    options = getattr(function, "targetoptions", {})
    return isinstance(function, Dispatcher) and not options.get("no_cpython_wrapper") and "inline" not in options


def test_every_kernel_is_a_subject():
    kernels = {
        f"{module.name}.{name}"
        for module in pkgutil.iter_modules(nearcal.kernels.__path__)
        for name, value in vars(importlib.import_module(f"nearcal.kernels.{module.name}")).items()
        if _called_by_python(value) and value.py_func.__module__.endswith(f".{module.name}")
    }
    assert kernels == {name for names in ATTACKS.values() for name in names}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__.removeprefix("attack_"))
def test_kernels(fuzz, attack):
    def quietly(rng):
        with np.errstate(all="ignore"):  # the twins, in plain numpy
            attack(rng)

    for seed in range(5):  # so that no case has to compile, which may take longer than a case is given
        quietly(np.random.default_rng(seed))
    fuzz.run(f"kernels of {attack.__name__}", quietly, 10)


def test_no_kernel_leaves_its_arrays(request, record_property):
    """Bounds checks are compiled in: hence a process and a cache of its own."""
    effort, seed = (request.config.getoption(name) for name in ("--fuzz", "--fuzz-seed"))
    if effort == 1:
        pytest.skip("compiling all kernels with bounds checks takes a minute; ask by --fuzz 2 and more")
    cache = str(Path(os.environ["NUMBA_CACHE_DIR"]) / "bounds_checked")
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": cache}
    command = [sys.executable, "-m", "tests.fuzz.kernels", str(seed), str(5 * effort)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1800)
    record_property("fuzz", ("kernels under bounds checks", 5 * effort * len(ATTACKS), int(done.returncode != 0)))
    assert done.returncode == 0, (
        f"again by --fuzz-seed {seed}; it ended with {done.returncode}\n{done.stdout}{done.stderr}"
    )


def test_bounds_checks_are_on():
    """In the same kind of process a read beyond the end is an error."""
    code = "import numba, numpy\nnumba.njit(lambda a: a[len(a)])(numpy.zeros(3))"
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert "IndexError" in done.stderr
