"""The commands put together, and what happens when something goes wrong."""

import inspect
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from nearcal._errors import NearcalError
from nearcal._version import __version__
from nearcal.cli import _compile, _fit, _inspect, _judge, _monitor, _predict, demo
from nearcal.cli._console import Mistake, warnings_as_remarks
from nearcal.cli._misuse import as_misuse
from nearcal.cli._model import PARAMETERS

COMMANDS: dict[str, tuple[Callable[..., None], str]] = {
    "fit": (_fit.fit, _fit.EXAMPLES),
    "predict": (_predict.predict, _predict.EXAMPLES),
    "evaluate": (_judge.evaluate, _judge.EXAMPLES["evaluate"]),
    "report": (_judge.report, _judge.EXAMPLES["report"]),
    "monitor": (_monitor.monitor, _monitor.EXAMPLES),
    "inspect": (_inspect.inspect, _inspect.EXAMPLES),
    "compile": (_compile.compile_model, _compile.EXAMPLES["compile"]),
    "warm-up": (_compile.warm_up, _compile.EXAMPLES["warm-up"]),
    "demo": (demo.demo, demo.EXAMPLES),
}
MISTAKEN, INTERRUPTED = 2, 130
_START = r"""
nearcal fit calibration.parquet -o model.nearcal --y price \
    --family normal --param loc=mu --param scale=sigma --space 'h*'
nearcal predict model.nearcal new.parquet -o out.parquet --coverage 0.9
nearcal evaluate model.nearcal test.parquet
"""


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        print(f"nearcal {__version__}")
        raise typer.Exit


def _describe(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Make predictive distributions trustworthy where they are used.

    Works on tables of predictions in Parquet, CSV and Arrow files, from any language.
    """


def _help(function: Callable[..., None], examples: str) -> str:
    """Return the help of a command; a paragraph that begins with a backspace keeps its lines."""
    paragraphs = [" ".join(part.split()) for part in (inspect.getdoc(function) or "").split("\n\n")]
    return "\n\n".join([*paragraphs, "\b\nExamples:\n" + "\n".join(f"  {line}" for line in examples.split("\n")[1:-1])])


def _build() -> typer.Typer:
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.callback(help=_help(_describe, _START))(_describe)
    for name, (function, examples) in COMMANDS.items():
        app.command(name, help=_help(function, examples))(function)
    return app


def run(arguments: Sequence[str]) -> int:
    """Run a command and return the exit code; what the user got wrong is told in one line on stderr."""
    try:
        with warnings_as_remarks():
            code = _build()(list(arguments) or ["--help"], prog_name="nearcal", standalone_mode=False)
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:  # whoever reads our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (Mistake, NearcalError, OSError) as error:
        return _complain(_as_mistake(error), arguments)
    except Exception as error:
        if not hasattr(error, "format_message"):  # typer's own have it, wherever its version keeps their classes
            raise
        return _complain(as_misuse(error, arguments, COMMANDS, PARAMETERS), arguments)
    if code == INTERRUPTED:  # some versions of typer return it
        print("nearcal: interrupted", file=sys.stderr)
    return code or 0


def prepare_process() -> None:
    """Make a request to terminate an interruption, so that files begun are removed; and let anything be printed."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115
        if hasattr(getattr(sys, name), "reconfigure"):  # a notebook's has not
            getattr(sys, name).reconfigure(errors="backslashreplace")  # names of files need not be in UTF-8


def _as_mistake(error: Exception) -> Mistake:
    if isinstance(error, Mistake):
        return error
    if isinstance(error, OSError) and not isinstance(error, NearcalError) and error.strerror:
        return Mistake(f"{error.strerror}: {error.filename}" if error.filename else error.strerror)
    return Mistake(str(error))


def _complain(mistake: Mistake, arguments: Sequence[str]) -> int:
    message, suggestion = (" ".join(text.split()) for text in (mistake.message, mistake.suggestion))
    if "--json" in arguments:
        print(json.dumps({"error": message, "suggestion": suggestion}, ensure_ascii=False), file=sys.stderr)
    else:
        print(f"nearcal: {message}" + (f"; {suggestion}" if suggestion else ""), file=sys.stderr)
    return MISTAKEN
