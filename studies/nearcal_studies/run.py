"""Run a study: units that are not yet done, then the conclusion."""

import io
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from nearcal_studies.store import Store, versions, write_json, write_whole
from nearcal_studies.study import Check, Conclusion, Scale, Study, Unit

_DPI = 160


def run(study: Study, out: Path, scale: Scale) -> Conclusion:
    """Run one study at one scale and write results.json, table.md and the figures into a folder.

    Finished units are kept in ``out/units``: the same call continues an interrupted run, and repeats only units whose
    settings have changed.
    """
    settings = study.settings(scale)
    units = study.units(settings)
    store = Store(out / "units", units)
    _work_on(study, units, store)
    conclusion = study.conclude(settings, store)
    checks = () if scale.quick else conclusion.checks  # of results that the size of a quick run cannot show
    for name, draw in conclusion.figures.items():
        image = io.BytesIO()
        draw().savefig(image, format="png", dpi=_DPI)
        write_whole(out / f"{name}.png", image.getvalue())
    write_whole(out / "table.md", f"{page(study, conclusion, checks)}\n".encode())
    record = {
        "study": study.name,
        "title": study.title,
        "settings": settings,
        "versions": versions(),
        "machine": {"system": platform.platform(), "processor": platform.machine()},
        "seconds": sum(store.seconds(key) for key in store),
        "results": conclusion.results,
        "checks": [{**vars(check), "holds": check.holds} for check in checks],
        "units": {key: {"seconds": store.seconds(key), **store[key].numbers} for key in store},
    }
    write_json(out / "results.json", record)
    return conclusion


def page(study: Study, conclusion: Conclusion, checks: Sequence[Check]) -> str:
    """Return what table.md holds."""
    parts = [f"## {study.title}", conclusion.tables.strip()]
    if checks:
        parts.append("What must be shown:\n\n" + "\n".join(f"- {check}" for check in checks))
    return "\n\n".join(parts)


def _work_on(study: Study, units: Sequence[Unit], store: Store) -> None:
    """Do what is left to do; a line a unit tells which begins, and how long all will take."""
    todo = [unit for unit in units if unit.key not in store]
    outdated = sum(store.is_outdated(unit.key) for unit in todo)
    if len(todo) < len(units):
        _tell(f"{study.name}: {len(units) - len(todo)} units are done already")
    if outdated:
        _tell(f"{study.name}: {outdated} units were done with other settings and are done anew")
    clock = Clock(todo)
    for number, unit in enumerate(todo, 1):
        left = clock.remaining()
        _tell(f"{study.name} {number}/{len(todo)}: {unit.key}" + ("" if left is None else f"; {duration(left)} left"))
        start = time.perf_counter()
        outcome = unit.work(unit.settings, *(store[key] for key in unit.needs))
        store.write(unit, outcome, time.perf_counter() - start)
        clock.finish(unit)


def _tell(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


class Clock:
    """Estimates the remaining time from what units of known cost took so far."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self._left = sum(unit.cost for unit in units)
        self._done = 0.0
        self._start = time.monotonic()

    def finish(self, unit: Unit) -> None:
        """Count a unit as done."""
        self._done += unit.cost
        self._left -= unit.cost

    def remaining(self) -> float | None:
        """Return the seconds that are left, None before the first unit is done."""
        return self._left * (time.monotonic() - self._start) / self._done if self._done else None


def duration(seconds: float) -> str:
    """Return a length of time in words.

    Examples
    --------
    >>> duration(42.3), duration(300), duration(8000)
    ('42 s', '5 min', '2 h 13 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
