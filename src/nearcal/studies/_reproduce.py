"""Run a study: units that are not yet done, then the conclusion."""

import platform
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from nearcal._atomic import replacing
from nearcal._errors import InvalidParameterError
from nearcal._optional import import_extra
from nearcal._version import __version__
from nearcal.studies._claims_page import write_claims
from nearcal.studies._markdown import check_list
from nearcal.studies._progress import reporter
from nearcal.studies._store import Store, write_json
from nearcal.studies._studies import STUDIES
from nearcal.studies._study import Check, Conclusion, Scale, Study

_PACKAGES = ("numpy", "scipy", "numba", "scikit-learn", "torch", "matplotlib")
DPI = 160


@dataclass(frozen=True)
class Reproduction:
    """What :func:`reproduce` returns; printed, it shows the tables.

    Attributes
    ----------
    out : Path
        The folder of results.json, table.md and the figures; after "all", of one such folder a study and of claims.md.
    tables : str
        The tables, in Markdown.
    checks : tuple of Check
        What must be shown, and whether it was; none after a quick run.
    """

    out: Path
    tables: str
    checks: tuple[Check, ...]

    def __str__(self) -> str:
        return self.tables


def reproduce(
    name: str,
    out: Path | str | None = None,
    *,
    quick: bool = False,
    seeds: int | None = None,
    full: bool = False,
    progress: bool = True,
) -> Reproduction:
    """Run a study of the paper and write its numbers, table and figures.

    Finished units of work are kept in ``out/units``: the same call continues an interrupted run, and repeats only units
    whose settings have changed.

    Parameters
    ----------
    name : str
        One of ``STUDIES``, or "all" for each in turn.
    out : path, optional
        Where to write. None takes ``reproduction/NAME`` below the current folder, with ``quick``
        ``reproduction/quick/NAME``. With "all", studies get a folder each below ``out``.
    quick : bool
        A version of about a minute that shows that everything works.
    seeds : int, optional
        The number of seeds, None for the study's own.
    full : bool
        The paper's own sizes where the usual ones are smaller; may take hours.
    progress : bool
        Whether to show units and the remaining time on standard error.

    Returns
    -------
    Reproduction
        Its ``str`` is the tables; ``out`` is where everything was written.
    """
    scale = Scale(quick=quick, full=full, seeds=seeds)
    if name != "all" and name not in STUDIES:
        raise InvalidParameterError(f"name must be 'all' or one of {', '.join(STUDIES)}, got {name!r}")
    home = Path("reproduction", "quick") if quick else Path("reproduction")
    if name != "all":
        return run(STUDIES[name], home / name if out is None else Path(out), scale, progress=progress)
    home = home if out is None else Path(out)
    for study in STUDIES.values():
        _require_packages(study)
    each = [run(study, home / study.name, scale, progress=progress) for study in STUDIES.values()]
    write_claims(home)
    checks = tuple(check for one in each for check in one.checks)
    return Reproduction(home, "\n\n".join(one.tables for one in each), checks)


def run(study: Study, out: Path, scale: Scale, *, progress: bool = False) -> Reproduction:
    """Run one study at one scale."""
    _require_packages(study)
    settings = study.settings(scale)
    units = study.units(settings)
    store = Store(out / "units", units)
    todo = [unit for unit in units if not store.is_done(unit.key)]
    if progress:
        _announce(study, len(units) - len(todo), sum(store.is_outdated(unit.key) for unit in todo))
    with reporter(study.name, todo, progress=progress) as report:
        for unit in todo:
            report.starts(unit)
            start = time.perf_counter()
            outcome = unit.work(*(store[key] for key in unit.needs))
            store.write(unit, outcome, time.perf_counter() - start)
            report.ends(unit)
    conclusion = study.conclude(settings, store)
    checks = () if scale.quick else tuple(conclusion.checks)  # of results that the size of a quick run cannot show
    tables = _page(study, conclusion, checks)
    _write_figures(out, conclusion)
    with replacing(out / "table.md") as file:
        file.write((tables + "\n").encode())
    write_json(out / "results.json", _record(study, settings, store, conclusion, checks))
    return Reproduction(out, tables, checks)


def _require_packages(study: Study) -> None:
    """Say what is missing before hours of work, not after."""
    for module in ("matplotlib", *study.packages):
        import_extra(module, "studies", f"reproduce({study.name!r})")


def _announce(study: Study, done: int, outdated: int) -> None:
    if done:
        print(f"{study.name}: {done} units are done already", file=sys.stderr)
    if outdated:
        print(f"{study.name}: {outdated} units were done with other settings and are done anew", file=sys.stderr)


def _page(study: Study, conclusion: Conclusion, checks: Sequence[Check]) -> str:
    parts = [f"## {study.title}", conclusion.tables.strip()]
    if checks:
        parts.append("What must be shown:\n\n" + check_list(checks))
    return "\n\n".join(parts)


def _write_figures(out: Path, conclusion: Conclusion) -> None:
    for name, draw in conclusion.figures.items():
        with replacing(out / f"{name}.png") as file:
            draw().savefig(file, format="png", dpi=DPI)


def _record(
    study: Study, settings: Mapping[str, Any], store: Store, conclusion: Conclusion, checks: Sequence[Check]
) -> dict[str, Any]:
    return {
        "study": study.name,
        "title": study.title,
        "settings": settings,
        "versions": _versions(),
        "machine": {"system": platform.platform(), "processor": platform.machine()},
        "seconds": sum(store.seconds(key) for key in store),
        "results": conclusion.results,
        "checks": [{"statement": c.statement, "found": c.found, "holds": c.holds} for c in checks],
        "units": {key: {"seconds": store.seconds(key), **store[key].numbers} for key in store},
    }


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "nearcal": __version__}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
