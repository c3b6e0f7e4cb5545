"""Numba kernels: arrays in, arrays out. Imported on first use, so that ``import nearcal`` stays light.

Each kernel walks a chunk of rows, one after the other, without the interpreter lock: results do not depend on how
rows are split into chunks or threads. None validates its input, and none uses ``fastmath`` (NaN must stay NaN).
A kernel writes into arrays that Python made, results and scratch: see ``compile.kernel``. Where that is more than the
caller should know, a function of plain Python beside it makes them.
"""
