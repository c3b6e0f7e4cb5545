"""Folders of Parquet files in place of one table: which engine goes through the parts, and what is said of them."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias

import typer

from nearcal.cli._console import Mistake, check_word, progress_bar, require_folder
from nearcal.distributed.parts import PartDone, PartPredictor, connected, list_parts, run_here, run_on

ENGINES = ("local", "dask")
EngineName: TypeAlias = Annotated[
    str, typer.Option("--engine", help=f"Who goes through a folder: {', '.join(ENGINES)}.")
]
WorkersOption: TypeAlias = Annotated[
    int | None, typer.Option("--workers", min=1, help="Processes of --engine dask on this machine; all processors.")
]
Scheduler: TypeAlias = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="A cluster for --engine dask, tcp://host:8786.")
]


class Engine(NamedTuple):
    """Who goes through the parts of a folder."""

    name: str
    workers: int | None
    scheduler: str | None

    @classmethod
    def of(cls, name: str, workers: int | None, scheduler: str | None, table: Path) -> "Engine":
        """Return the engine asked for, refusing options that do not go together."""
        check_word(name, ENGINES, "--engine")
        given = "--workers" if workers is not None else "--scheduler"
        if name != "dask" and not (workers is None and scheduler is None):
            raise Mistake(f"{given} goes with --engine dask", "add it, or leave this out: all processors are used")
        if workers is not None and scheduler is not None:
            raise Mistake("--workers and --scheduler are both given", "a cluster has workers of its own: give one")
        if name == "dask" and not table.is_dir():
            raise Mistake(
                f"--engine dask goes through a folder of Parquet files, got {table}", "leave it out for one file"
            )
        return cls(name, workers, scheduler)

    @contextmanager
    def client(self) -> Iterator[Any]:
        """Yield a client of the cluster."""
        try:
            with connected(self.workers, self.scheduler) as client:
                yield client
        except (TimeoutError, ValueError) as error:
            if self.scheduler is None:
                raise
            raise Mistake(f"no cluster answers at --scheduler {self.scheduler}", "check the address") from error

    @contextmanager
    def run(self, work: PartPredictor, names: list[str]) -> Iterator[Iterator[PartDone]]:
        """Yield what becomes of parts."""
        if self.name == "local":
            yield run_here(work, names)
            return
        with self.client() as client, closing(run_on(client, work, names)) as done:  # type: ignore[type-var]
            yield done


def parts_of(folder: Path) -> list[str]:
    """Return the names of the parts, of which there is one at least."""
    names = list_parts(folder)
    if not names:
        raise Mistake(
            f"{folder} has no Parquet files", "parts end in .parquet or .pq, and do not begin with _ or a dot"
        )
    return names


def require_other_folder(output: Path, folder: Path) -> None:
    """Refuse an output that is no folder, or the one that is read, or lies within it."""
    require_folder(output)
    inside = output.resolve()
    if inside == folder.resolve() or folder.resolve() in inside.parents:
        raise Mistake(f"--output {output} lies in the folder to be read", "choose another folder")


class Totals(NamedTuple):
    """What became of all parts."""

    parts: int
    done_before: int
    rows: int
    incomplete: int
    faded: int
    failed: list[str]


def go_through(work: PartPredictor, names: list[str], engine: Engine, keep_going: bool) -> Totals:
    """Predict all parts that are not done; the first that fails ends it, unless the rest is to be done all the same."""
    waiting = [name for name in names if not work.is_done(name)]
    done: list[PartDone] = []
    failed: list[str] = []
    with progress_bar("predicting", len(waiting), "parts") as report, engine.run(work, waiting) as finished:
        for one in finished:
            done.append(one)
            report(len(done), None)
            if one.error is not None:
                failed.append(one.error)
                if not keep_going:
                    break
    rows, incomplete, faded = (sum(getattr(one, name) for one in done) for name in ("rows", "incomplete", "faded"))
    return Totals(len(done) - len(failed), len(names) - len(waiting), rows, incomplete, faded, failed)


def raise_failures(totals: Totals, keep_going: bool) -> None:
    """Say which parts are missing, and how to go on."""
    if not totals.failed:
        return
    if keep_going:
        more = f", and {len(totals.failed) - 1} more parts" if len(totals.failed) > 1 else ""
        raise Mistake(f"{totals.failed[0]}{more}", f"the other {totals.parts + totals.done_before} parts are written")
    raise Mistake(totals.failed[0], "run it again to go on with the rest, with --keep-going past parts that fail")
