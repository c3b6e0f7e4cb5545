"""``nearcal fit --shards``: a calibration set larger than memory, through this process or a cluster."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import nearcal as nc
from nearcal.cli._console import Mistake, remark
from nearcal.cli._folders import Engine, parts_of
from nearcal.cli._model import must_be_positive
from nearcal.cli._rows import Findings, iterate
from nearcal.cli._tables import TableFile
from nearcal.distributed.batches import Columns
from nearcal.distributed.calibrating import calibrate_in_batches
from nearcal.models.adapters import ColumnsModel
from nearcal.recalibration import LEAST_SAMPLE


class Large(NamedTuple):
    """What is asked, and options that have no place here, by name."""

    shards: Path | None
    sample: int
    engine: Engine
    skip_missing: bool
    method: str
    idle: dict[str, Any]

    def calibrate(
        self, file: TableFile, model: ColumnsModel, y: str, how: dict[str, Any]
    ) -> tuple[nc.CalibratedModel, int]:
        """Return the model, and how many rows were left out."""
        spaces = [name for names in model.spaces.values() for name in names]
        needed = list(dict.fromkeys([y, *model.columns(), *spaces]))
        file.require_numbers(needed)
        if self.engine.name == "dask":
            return self._on_dask(file, model, y, needed, how), 0
        findings: list[Findings] = []

        def batches() -> Iterator[Columns]:
            findings.append(Findings(file, must_be_positive(model, y), self.skip_missing))
            for rows in iterate(file, needed):
                findings[-1].look(rows)
                if rows.whole.any():
                    yield rows.complete()
            findings[-1].raise_mistakes()

        calibrated = calibrate_in_batches(model, batches, y, folder=self.shards, sample=self.sample, **how)
        if left_out := findings[-1].incomplete:
            remark(f"left out {left_out} of {findings[-1].rows} rows with missing values")
        return calibrated, left_out

    def _on_dask(
        self, file: TableFile, model: ColumnsModel, y: str, needed: list[str], how: dict[str, Any]
    ) -> nc.CalibratedModel:
        from nearcal.distributed.dask import read_parts

        how = {name: value for name, value in how.items() if name in ("layer", "recalibrator", "tuning")}
        with self.engine.client():
            frame = read_parts(file.path.resolve(), parts_of(file.path), needed, skip_missing=self.skip_missing)
            return nc.dask.calibrate(model, frame, y, folder=self.shards, sample=self.sample, **how)

    def require_options(self) -> None:
        """Refuse options that do not go together."""
        if self.shards is None:
            raise Mistake(
                "--engine dask needs --shards, the folder that it builds", "for example --shards model.shards"
            )
        if self.method not in ("auto", "local"):
            raise Mistake(f"--method {self.method} has no use for --shards", "leave it out, or take --method local")
        if self.sample < LEAST_SAMPLE:
            raise Mistake(f"--sample must be at least {LEAST_SAMPLE}, got {self.sample}", "100000 is usual")
        for option, value in self.idle.items():
            if value is not None:
                raise Mistake(f"{option} cannot be used with --shards", "leave it out, or fit on a sample in memory")
