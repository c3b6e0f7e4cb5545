"""How kernels are compiled."""

import subprocess
import sys


def test_kernels_work_where_nothing_can_be_written():
    """A read-only installation and no home: numba then refuses to cache and raises, when the kernel is decorated."""
    code = """
import numpy as np
from numba.core.caching import CacheImpl
CacheImpl._locator_classes = []
from nearcal._jit._weights import UNIFORM, weigh
print(weigh(np.array([0, 2]), np.array([1.0, 2.0]), np.array([2.0]), UNIFORM)[0])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[0.5 0.5]", done.stderr
