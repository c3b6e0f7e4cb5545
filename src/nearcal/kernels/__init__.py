"""Numba kernels: arrays in, arrays out. Imported on first use, so that ``import nearcal`` stays light.

Each kernel walks a chunk of rows, one after the other, without the interpreter lock: results do not depend on how
rows are split into chunks or threads. None validates its input, and none uses ``fastmath`` (NaN must stay NaN).
"""
