"""How kernels are compiled. Never prange: its default threading layer aborts when two Python threads enter at once."""

import gc

import numba as nb
from numba.core import event


class _Uncollected(event.Listener):
    """No garbage collection while a kernel of ours is compiled: of all that numba makes it finds little to free.

    It took a seventh of the time. Compilation has one lock for all threads, under which these are called.
    """

    depth = 0
    was_enabled = False

    def on_start(self, event):
        if self.depth > 0 or str(event.data["dispatcher"].py_func.__module__).startswith("nearcal."):
            if self.depth == 0:
                self.was_enabled = gc.isenabled()
                gc.disable()
            self.depth += 1

    def on_end(self, event):
        if self.depth > 0:
            self.depth -= 1
            if self.depth == 0 and self.was_enabled:
                gc.enable()


event.register("numba:compile", _Uncollected())

# No fastmath: NaN stays NaN and sums keep their order. No wrapper for C: nobody calls from there.
_OPTIONS = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}


def making_kernel(function, **options):
    """Compile a function that Python calls and that makes arrays itself, as few must: see :func:`kernel`."""
    try:
        return nb.njit(cache=True, **_OPTIONS, **options)(function)
    except RuntimeError:  # numba found no place for its cache
        return nb.njit(**_OPTIONS, **options)(function)


def kernel(function):
    """Compile a function that Python calls, and keep it on disk; where no directory is writable, in memory alone.

    Results and scratch are made by the caller, in Python. Without an array of its own a kernel need not count who
    holds which one: that took a quarter of the code that LLVM was given, and each way to make arrays compiles as much
    as a small kernel does.
    """
    return making_kernel(function, _nrt=False)


# What only kernels call: without wrappers for Python or an entry of its own in the cache, compiled in half the time.
# A literal and a variable argument make two versions, hence np.int64(0) in calls.
inner = nb.njit(**_OPTIONS, no_cpython_wrapper=True, _nrt=False)

# What a kernel calls in one place alone: becomes part of it before types are found. As a function of its own it would
# be optimised twice, by itself and again within its caller.
once = nb.njit(**_OPTIONS, inline="always")

# Called for every block of points: tuples of arrays are costly to pass.
inlined = nb.njit(**_OPTIONS, no_cpython_wrapper=True, _nrt=False, forceinline=True)

# Sums that may run in vector lanes: their order then depends on the length alone, so results stay reproducible.
# Inlined: otherwise there are two copies, whose lanes may differ. The process that compiles a kernel runs one, one
# that loads it from disk the other.
reduction = nb.njit(**_OPTIONS, no_cpython_wrapper=True, _nrt=False, forceinline=True, fastmath={"reassoc", "nsz"})
