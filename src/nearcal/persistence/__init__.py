"""Fitted recalibrators in files: one safetensors file each, written atomically, memory-mapped when loaded."""

from nearcal.persistence._artefact import Artefact, load, read, save

__all__ = ["Artefact", "load", "read", "save"]
