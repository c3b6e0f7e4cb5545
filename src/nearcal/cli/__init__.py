"""The command ``nearcal``: recalibration of predictions that lie in files."""

import sys

from nearcal._errors import MissingExtraError
from nearcal._optional import import_extra


def main() -> None:
    """Run the command with the arguments of this process, and end it."""
    try:
        for package in ("typer", "rich", "pyarrow"):
            import_extra(package, "cli", "the command nearcal")
    except MissingExtraError as error:
        print(f"nearcal: {error}", file=sys.stderr)
        sys.exit(2)
    from nearcal.cli._app import prepare_process, run

    prepare_process()
    sys.exit(run(sys.argv[1:]))


__all__ = ["main"]
