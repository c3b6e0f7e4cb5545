"""Save and load fitted recalibrators, and what calibrated models have learnt."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearcal._atomic import replacing
from nearcal._errors import ArtefactError, InvalidInputError
from nearcal._saved import is_savable, savable_classes, text
from nearcal._version import __version__
from nearcal.persistence._encoding import Decoder, Encoder
from nearcal.persistence._file import read_file, write_file


@dataclass(frozen=True)
class Artefact:
    """What a file holds.

    Attributes
    ----------
    content : object
        What was saved.
    tuning : object
        How it was tuned, if that was saved with it, or is part of it as of a calibrated model; None if it was not.
    version : str
        The version of nearcal that saved it.
    """

    content: Any
    tuning: Any
    version: str


def save(obj: Any, path: str | os.PathLike[str], *, tuning: Any = None) -> None:
    """Save a fitted recalibrator, or what a calibrated model has learnt.

    The file is one safetensors file: arrays, and a manifest with the class, its parameters, the version of nearcal and
    checksums. There is no code in it. It takes the place of an older file at once when it is complete: a crash leaves
    the old one, and whoever has loaded the old one goes on using that.

    Parameters
    ----------
    obj : recalibrator, CalibratedModel, OnlineRecalibrator or CalibrationMonitor
        Fitted; a stream may be in the middle. Of a :class:`nearcal.CalibratedModel` all but the model is saved, which
        its own framework saves; a model of columns (:class:`nearcal.models.adapters.ColumnsModel`) is saved with it. A
        progress function and a random generator among parameters are not saved, and come back as the defaults: they
        play no part in what was learnt.
    path : str or path-like
        Where to; the directory must exist.
    tuning : Tuning, str, Table, or dict, list or tuple of such, optional
        How a recalibrator was chosen, to be kept with it (a calibrated model knows): what :func:`nearcal.tune`
        returned, or a note of your own; see :func:`nearcal.persistence.read`.

    Raises
    ------
    NotFittedError, InvalidInputError, ArtefactError
        If obj is not fitted, is nothing that can be saved, or path is no place for a file. What the system reports,
        such as a full disk, is left as it is; the old file stays.

    Notes
    -----
    Windows does not let go of a file in use: there, a file that is loaded cannot be replaced.

    Examples
    --------
    >>> import tempfile, pathlib, numpy as np, nearcal as nc
    >>> x = np.random.default_rng(1).normal(size=500)
    >>> rc = nc.LocalRecalibrator(k=50).fit(nc.Normal(np.zeros(500), 1.0), x, x)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.nearcal"
    >>> nc.save(rc, path)
    >>> nc.load(path)
    LocalRecalibrator(k=50)
    """
    part = obj._to_artefact() if hasattr(type(obj), "_to_artefact") else obj
    _require_savable(part)
    encoder = Encoder()
    content = encoder.encode(part, type(part).__name__)
    manifest = {
        "nearcal": __version__,
        "content": content,
        "tuning": encoder.encode(tuning, "tuning"),
        "objects": encoder.objects,
    }
    with replacing(_as_path(path)) as file:
        write_file(file, manifest, encoder.arrays)


def load(path: str | os.PathLike[str], *, verify: bool = True, mmap: bool = True) -> Any:
    """Load what :func:`nearcal.save` has saved; its results are the same to the last bit.

    Of a calibrated model this is a :class:`nearcal.Recalibration`, whose ``attach(model)`` joins it with the model
    again.

    Parameters
    ----------
    path : str or path-like
        A file written by :func:`nearcal.save`.
    verify : bool
        Whether to read the arrays once and compare their checksum. Without it a damaged array goes unnoticed; the rest
        of the file is checked all the same.
    mmap : bool
        Whether arrays are mapped into memory: not copied, and shared by all processes that load the same file. A mapped
        file may be replaced, as :func:`nearcal.save` does, and be deleted; but if it is cut short or overwritten where
        it is (``cp`` over it, a failing network drive), processes that use it get wrong numbers or are killed by the
        system (SIGBUS). Where that can happen, False reads everything into memory of this process.

    Raises
    ------
    ArtefactError
        If the file is truncated, altered, not written by :func:`nearcal.save`, or of another format.
    FileNotFoundError
        If there is no file.
    MissingExtraError
        If the recalibrator needs a package that is not installed.

    Notes
    -----
    Checksums tell damage, not forgery: who can write the file can make it predict anything. But nothing in it is
    executed, and sizes and indices are checked before compiled code relies on them.

    Examples
    --------
    >>> import tempfile, pathlib, numpy as np, nearcal as nc
    >>> y = np.random.default_rng(1).normal(size=500)
    >>> rc = nc.VarianceScaling().fit(nc.Normal(np.zeros(500), 2.0), y)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "scaling.nearcal"
    >>> nc.save(rc, path)
    >>> nc.load(path).factor_ == rc.factor_
    True
    """
    return read(path, verify=verify, mmap=mmap).content


def read(path: str | os.PathLike[str], *, verify: bool = True, mmap: bool = True) -> Artefact:
    """Load what :func:`nearcal.save` has saved, together with what is known of its making.

    Parameters
    ----------
    path, verify, mmap
        As in :func:`nearcal.load`, which see also for errors.

    Examples
    --------
    >>> import tempfile, pathlib, nearcal as nc
    >>> from nearcal.persistence import read
    >>> rc = nc.VarianceScaling().fit(nc.Normal([0.0, 0.0], 2.0), [-1.0, 1.0])
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "scaling.nearcal"
    >>> nc.save(rc, path, tuning="by hand")
    >>> read(path)
    Artefact(content=VarianceScaling(), tuning='by hand', version='0.2.0')
    """
    place = _as_path(path)
    if place.exists() and not place.is_file():
        raise ArtefactError(f"path must be a file written by nearcal.save, got {place}, which is no regular file")
    try:
        manifest, arrays = read_file(place, verify, mmap)
        version = text("nearcal", manifest["nearcal"])
        decoder = Decoder(manifest["objects"], arrays)
        content, tuning = decoder.decode(manifest["content"]), decoder.decode(manifest["tuning"])
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        # intact by its checksum, yet not what save writes: made by something else, or by a version with other classes
        raise ArtefactError(f"{place} does not hold what nearcal can load: {error}") from error
    if not is_savable(content):
        raise ArtefactError(f"{place} does not hold what nearcal can load: its content is a {type(content).__name__}")
    return Artefact(content, getattr(content, "tuning", None) if tuning is None else tuning, version)


def _require_savable(obj: Any) -> None:
    """Refuse what is of no known class, and say which classes are."""
    if is_savable(obj):
        return
    recalibrators = sorted(name for name, cls in savable_classes().items() if hasattr(cls, "recalibrate"))
    reason = f"; {obj._not_saved}" if hasattr(obj, "_not_saved") else ""
    raise InvalidInputError(
        f"obj must be a fitted recalibrator of one of the classes {', '.join(recalibrators)}, or a CalibratedModel, "
        f"got {type(obj).__name__}{reason}"
    )


def _as_path(path: Any) -> Path:
    if not isinstance(path, str | os.PathLike):
        raise InvalidInputError(f"path must be a string or a path, got {type(path).__name__}")
    return Path(path)
