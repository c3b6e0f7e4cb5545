import time

import numpy as np
import pytest

from nearcal_studies.simulation import costs
from nearcal_studies.simulation.costs import add_up, watch

linux = pytest.mark.skipif(not costs._STATUS.exists(), reason="only Linux tells the memory of a process")


def work(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_processor_time_does_not_count_sleep():
    with watch() as cost:
        work(0.05)
        time.sleep(0.1)
    assert 0.05 <= cost.seconds < 0.1
    assert cost.elapsed >= 0.15


@linux
def test_peak_of_a_block_and_of_what_is_around_it():
    with watch() as outer:
        with watch() as inner:
            np.ones(20_000_000)  # 160 MB, gone at once
        with watch() as later:
            np.ones(1000)
    assert 155 < inner.extra < 175
    assert later.extra < 5
    assert outer.peak >= inner.peak > later.peak


def test_costs_of_units_add_up_and_memory_is_the_largest():
    one = {"cpu_seconds": 1.0, "elapsed_seconds": 2.0, "peak_megabytes": 300.0}
    two = {"cpu_seconds": 10.0, "elapsed_seconds": 20.0, "peak_megabytes": None}
    assert add_up([one, two]) == {"cpu_seconds": 11.0, "elapsed_seconds": 22.0, "peak_megabytes": 300.0}
