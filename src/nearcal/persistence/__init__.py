"""Fitted recalibrators, and what calibrated models have learnt, in files.

One safetensors file each, written atomically, memory-mapped when loaded.
"""

from nearcal.persistence._artefact import Artefact, load, read, save

__all__ = ["Artefact", "load", "read", "save"]
