"""The fixture that runs cases, counts them, and says how to see a defect again."""

import contextlib
import signal
import traceback
import zlib

import numpy as np
import pytest

LONGEST = 60  # seconds of a case, beyond which it hangs
LONGEST_FIRST = 240  # of the first case of a subject, which may have kernels to compile


class Fuzzer:
    """Runs a function on many random generators; defects are collected, so that one does not hide the others."""

    def __init__(self, seed, effort, only, record):
        self.seed, self.effort, self.only, self.record = seed, effort, only, record

    def run(self, subject, attack, cases=10):
        """Call ``attack(rng)`` for a number of cases, times the effort asked for; any exception is a defect.

        An attack returns normally where the library kept its promise: a right number, or a NearcalError.
        """
        defects = []
        numbers = range(cases * self.effort) if self.only is None else [self.only]
        for place, number in enumerate(numbers):
            rng = np.random.default_rng([self.seed, zlib.crc32(subject.encode()), number])
            try:
                with _within(LONGEST_FIRST if place == 0 else LONGEST):
                    attack(rng)
            except Exception:
                defects.append((number, traceback.format_exc(limit=-4)))
        self.record("fuzz", (subject, len(numbers), len(defects)))
        if defects:
            number, trace = defects[0]
            pytest.fail(
                f"{subject}: {len(defects)} of {len(numbers)} cases; the first again by "
                f"--fuzz-seed {self.seed} --fuzz-case {number}\n{trace}",
                pytrace=False,
            )


@contextlib.contextmanager
def _within(seconds):
    """Interrupt what hangs, where the system can."""

    def interrupt(*_):
        raise TimeoutError(f"no answer within {seconds} s")

    if not hasattr(signal, "SIGALRM"):
        yield
        return
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
def fuzz(request, record_property):
    """Return the fuzzer of this run."""
    option = request.config.getoption
    return Fuzzer(option("--fuzz-seed"), option("--fuzz"), option("--fuzz-case"), record_property)
