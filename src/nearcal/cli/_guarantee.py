"""The promise that ``nearcal fit`` is asked for, as options."""

from typing import Annotated, Any, TypeAlias

import typer

from nearcal.cli._console import Mistake, check_share, check_word
from nearcal.guarantees import PAC, Cross, Marginal

PROMISES = ("marginal", "pac", "cross")

Guarantee: TypeAlias = Annotated[
    str | None,
    typer.Option(help=f"Promise the coverage of intervals: {', '.join(PROMISES)}; see the guide on guarantees."),
]
Share: TypeAlias = Annotated[
    float | None,
    typer.Option("--guarantee-share", help="Share of rows set aside for the promise; 5√n of n rows if not said."),
]
Delta: TypeAlias = Annotated[
    float | None,
    typer.Option("--guarantee-delta", help="Share of calibration sets that may fall short, of pac; 0.1 if not said."),
]
PromiseGroups: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--guarantee-groups",
        metavar="COLUMNS",
        help="Column of numbers whose groups have the promise each, or several of 0 and 1, for groups that overlap.",
    ),
]
GuaranteeSeed: TypeAlias = Annotated[int, typer.Option("--guarantee-seed", min=0, help="Which rows are set aside.")]


def promise_of(kind: str | None, share: float | None, delta: float | None, groups: str | None, seed: int) -> Any:
    """Return the promise asked for, None if there is none, refusing options that are of another."""
    given = {"--guarantee-share": share, "--guarantee-delta": delta, "--guarantee-groups": groups}
    idle = [name for name, value in given.items() if value is not None]
    if kind is None:
        if idle:
            raise Mistake(f"{idle[0]} needs --guarantee", "for example --guarantee marginal")
        return None
    check_word(kind, PROMISES, "--guarantee")
    if kind == "cross" and idle:
        raise Mistake(f"--guarantee cross has no use for {idle[0]}", "it sets nothing aside: leave it out")
    if kind != "pac" and delta is not None:
        raise Mistake(f"--guarantee {kind} has no use for --guarantee-delta", "take --guarantee pac")
    if kind == "cross":
        return Cross(seed=seed)
    names = None if groups is None else tuple(groups.split(","))
    options: dict[str, Any] = {"seed": seed, "groups": names[0] if names is not None and len(names) == 1 else names}
    if share is not None:
        options["share"] = check_share(share, "--guarantee-share")
    if delta is not None:
        options["delta"] = check_share(delta, "--guarantee-delta")
    return PAC(**options) if kind == "pac" else Marginal(**options)
