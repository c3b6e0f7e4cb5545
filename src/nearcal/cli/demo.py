"""``nearcal demo``: a network on the prices of diamonds, recalibrated; what it got wrong before and after, in words."""

import copy
import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

import nearcal as nc
from nearcal._optional import import_extra
from nearcal.cli._console import require_folder

EXAMPLES = """
nearcal demo
nearcal demo -o somewhere
"""
COVERAGE = 0.95
WIDTHS, EPOCHS, BATCH, RATE = (100, 5, 5), 8, 128, 0.003
SHOWN = (4113.0, 18026.0)  # prices of the two diamonds that the paper shows
BLUE, ORANGE = "#0072B2", "#D55E00"


class Data(NamedTuple):
    """Standardised inputs of the network, the columns as published with grades as numbers, and prices in dollars."""

    X: NDArray[Any]
    published: NDArray[Any]
    y: NDArray[Any]


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for figures and the report.")] = Path(
        "nearcal-demo"
    ),
) -> None:
    """Train a network on the prices of diamonds, recalibrate it, and show what has changed."""
    require_folder(output)
    show(output)


def show(out: Path, rows: int | None = None) -> None:
    """Do what the command says, on so many diamonds or all."""
    _tell("Loading PyTorch and matplotlib")
    import_extra("torch", "demo", "nearcal demo")
    import_extra("matplotlib", "demo", "nearcal demo")
    out.mkdir(parents=True, exist_ok=True)
    train, cal, new = split(rows)
    _tell(f"Training a network on the prices of {len(train.y):,} diamonds")
    network = train_network(train, cal)
    print(_first_result(network, new), end="\n\n", flush=True)
    _tell(f"Recalibrating it by its errors on {len(cal.y):,} others; the first time, code is compiled for this machine")
    calibrated = nc.calibrate(network, cal.X, cal.y, head=_gamma, workers=nc.Workers(progress=sys.stderr.isatty()))
    print(f"{calibrated.reason}\n", flush=True)
    _tell(f"Judging both on the {len(new.y):,} that neither has seen, and writing the report")
    dists = {"before": calibrated.base(new.X), "after": calibrated.predict(new.X)}
    page = nc.report(
        dists,
        new.y,
        new.X,
        path=out / "report.html",
        features=features(new),
        levels=nc.datasets.load_diamonds().categories,
        title="Prices of diamonds",
        response="price",
        unit="dollars",
        n_cal=len(cal.y),
        coverage=COVERAGE,
        tuning=calibrated.tuning,
    )
    (out / "report.txt").write_text(f"{page}\n", encoding="utf-8")
    print(f"{page}\n\nThe same for a browser: {(out / 'report.html').resolve().as_uri()}", flush=True)
    for name, figure in {"diamonds": draw_diamonds(dists, new), "pit": draw_pit(dists, new)}.items():
        figure.savefig(out / f"{name}.png", dpi=160)
        print(out / f"{name}.png")


def _first_result(network: Any, new: Data) -> str:
    """Say how the network does overall: what a usual check would look at."""
    torch = import_extra("torch", "demo", "nearcal demo")
    with torch.no_grad():
        base = _gamma(network(torch.tensor(new.X, dtype=torch.float32)).numpy().astype(np.float64))
    covered = nc.diagnostics.coverage(base, new.y, [COVERAGE])["coverage"][0]
    return (
        f"On {len(new.y):,} diamonds it has not seen, its {COVERAGE:.0%} intervals cover {covered:.1%}. "
        "Does that hold everywhere?"
    )


def _tell(message: str) -> None:
    print(f"{message} …", file=sys.stderr, flush=True)


def split(rows: int | None = None) -> list[Data]:
    """Return 70% of the diamonds to train, 20% to calibrate and 10% to judge; logarithms of carat and lengths."""
    diamonds = nc.datasets.load_diamonds()
    order = np.random.default_rng(0).permutation(len(diamonds.y))[:rows]
    columns = dict(zip(diamonds.feature_names, diamonds.X[order].T, strict=True))
    lengths = [np.log(_plausible(columns[name], columns["carat"])) for name in ("x", "y", "z")]
    others = [columns[name] for name in ("cut", "color", "clarity", "depth", "table")]
    X = np.column_stack([np.log(columns["carat"]), *others, *lengths])
    ends = [7 * len(order) // 10, 9 * len(order) // 10]
    X = (X - X[: ends[0]].mean(axis=0)) / X[: ends[0]].std(axis=0)
    parts = (np.split(array, ends) for array in (X, diamonds.X[order], diamonds.y[order]))
    return [Data(*part) for part in zip(*parts, strict=True)]


def _plausible(length: NDArray[Any], carat: NDArray[Any]) -> NDArray[Any]:
    """Replace lengths that no diamond has by the typical one at its weight, which is proportional to carat^(1/3)."""
    is_plausible = (length > 1) & (length < 15)
    typical = np.median(length[is_plausible] / np.cbrt(carat[is_plausible]))
    return np.where(is_plausible, length, typical * np.cbrt(carat))


def train_network(data: Data, validation: Data) -> Any:
    """Return a network for (log μ, log α) of a Gamma distribution, one α for all; the best epoch is kept."""
    torch = import_extra("torch", "demo", "nearcal demo")

    def tensors(part: Data) -> list[Any]:
        return [torch.tensor(array, dtype=torch.float32) for array in (part.X, part.y)]

    def loss(output: Any, y: Any) -> Any:
        log_mean, log_shape = output[:, 0], output[:, 1]
        shape, scaled = log_shape.exp(), y.log() - log_mean
        return -(shape * (log_shape + scaled - scaled.exp()) - y.log() - shape.lgamma()).mean()

    (X, y), held_out = tensors(data), tensors(validation)
    with torch.random.fork_rng(), _one_thread(torch):
        torch.manual_seed(0)
        network = _make_network(torch, data)
        optimizer = torch.optim.Adam(network.parameters(), lr=RATE)
        best, kept = math.inf, None
        for _ in range(EPOCHS):
            for batch in torch.randperm(len(y)).split(BATCH):
                optimizer.zero_grad()
                loss(network(X[batch]), y[batch]).backward()
                optimizer.step()
            with torch.no_grad():
                error = float(loss(network(held_out[0]), held_out[1]))
            if error < best:
                best, kept = error, copy.deepcopy(network.state_dict())
    network.load_state_dict(kept)
    return network.eval()


@contextmanager
def _one_thread(torch: Any) -> Iterator[None]:
    """Keep batches as small as these on one thread: where processors are busy, several took twenty times as long."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _make_network(torch: Any, data: Data) -> Any:
    """Return the network untrained; it starts from the mean price, and the weights of log α are and stay zero."""
    layers, inputs = [], data.X.shape[1]
    for width in WIDTHS:
        layers += [torch.nn.Linear(inputs, width), torch.nn.ReLU()]
        inputs = width
    fork, free = torch.nn.Linear(inputs, 2), torch.tensor([[1.0], [0.0]])
    with torch.no_grad():
        fork.weight.mul_(free)
        fork.bias.copy_(torch.tensor([math.log(data.y.mean()), 0.0]))
    fork.weight.register_hook(lambda gradient: gradient * free)
    return torch.nn.Sequential(*layers, fork)


def _gamma(output: NDArray[Any]) -> nc.Gamma:
    shape = np.exp(output[:, 1])
    return nc.Gamma(shape, np.exp(output[:, 0]) / shape)


def features(new: Data) -> dict[str, Any]:
    """Return the diamonds' columns as published, grades by name."""
    diamonds = nc.datasets.load_diamonds()
    columns: dict[str, Any] = dict(zip(diamonds.feature_names, new.published.T, strict=True))
    for name, grades in diamonds.categories.items():
        columns[name] = np.array(grades)[columns[name].astype(np.int64)]
    return columns


def draw_pit(dists: Mapping[str, nc.Distribution], new: Data) -> Any:
    """Return the distribution of PIT values before and after."""
    figure = _new_figure(3.8, 3.2)
    tables = {name: nc.diagnostics.pit_ecdf(nc.diagnostics.pit(dist, new.y, rng=0)) for name, dist in dists.items()}
    nc.plots.pit_ecdf(tables, figure.subplots())
    return figure


def draw_diamonds(dists: Mapping[str, nc.Distribution], new: Data) -> Any:
    """Return figure 5 of the paper: predictions, the densities of two diamonds, and PIT values around them."""
    figure = _new_figure(7.8, 5.6)
    axes = figure.subplots(2, 2)
    (a, b), below = axes
    rows, mean = [int(np.argmin(np.abs(new.y - price))) for price in SHOWN], dists["before"].mean()
    a.plot(new.y[:3000], mean[:3000], ".", markersize=1.5, color="0.8")
    a.axline((0, 0), slope=1, color="black", linewidth=0.8)
    a.set(xlabel="price", ylabel="prediction of the network", xlim=(0, 20000), ylim=(0, 25000))
    curves = nc.diagnostics.density_curves({name: dist[rows] for name, dist in dists.items()})
    for place, (row, color) in enumerate(zip(rows, (BLUE, ORANGE), strict=True)):
        a.plot(new.y[row], mean[row], "o", color=color, markersize=6)
        own = curves["row"] == place
        for method, label, line in (("before", "network", "-"), ("after", "recalibrated", "--")):
            of = own & (curves["method"] == method)
            density = curves["density"][of] / curves["density"][own].max()  # the dear one is far wider
            b.plot(curves["y"][of], density, line, color=color, label="" if place else label)
        b.axvline(new.y[row], color=color, linewidth=0.8, linestyle=":")
    b.set(xlabel="price", ylabel="density, scaled", yticks=[])
    b.legend(loc="upper center", frameon=False, fontsize="small")
    near = nc.diagnostics.nearest_regions(new.published, new.published[rows], k=min(500, len(new.y) // 10)).rows
    for ax, dist in zip(below, dists.values(), strict=True):
        p = nc.diagnostics.pit(dist, new.y, rng=0)
        names = [f"near {new.y[row]:,.0f}" for row in rows]
        tables = {name: nc.diagnostics.pit_histogram(p[own]) for name, own in zip(names, near, strict=True)}
        nc.plots.pit_histogram(tables, ax)
    top = max(ax.get_ylim()[1] for ax in below)
    titles = (
        "(a) Predictions",
        "(b) Two predictive distributions",
        "(c) PIT near them, network",
        "(d) PIT, recalibrated",
    )
    for ax, title in zip(axes.flat, titles, strict=True):
        ax.set_title(title, fontsize="medium", loc="left")
    for ax in below:
        ax.set_ylim(0, top)
    return figure


def _new_figure(width: float, height: float) -> Any:
    return import_extra("matplotlib.figure", "demo", "nearcal demo").Figure((width, height), layout="constrained")
