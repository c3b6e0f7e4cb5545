"""The command: ``scripts/reproduce NAME`` or ``python -m nearcal_studies NAME``."""

import argparse
import sys
from pathlib import Path

from nearcal_studies.blocked import Blocked
from nearcal_studies.cautious import Cautious
from nearcal_studies.claims import write_claims
from nearcal_studies.clear import Clear
from nearcal_studies.compiled import Compiled
from nearcal_studies.diamonds import Diamonds
from nearcal_studies.distilled import Distilled
from nearcal_studies.drift import Drift
from nearcal_studies.gaussian import Gaussian
from nearcal_studies.guarantees import Guarantees
from nearcal_studies.real_data import RealData
from nearcal_studies.relevance import Relevance
from nearcal_studies.rosenbrock import Rosenbrock
from nearcal_studies.run import page, run
from nearcal_studies.several import Several
from nearcal_studies.sharper import Sharper
from nearcal_studies.simulation import Simulation
from nearcal_studies.study import Scale, Study

ROOT = Path(__file__).parents[2]
STUDIES: dict[str, type[Study]] = {
    study.name: study
    for study in (
        Gaussian,
        Rosenbrock,
        Simulation,
        Diamonds,
        RealData,
        Sharper,
        Cautious,
        Compiled,
        Distilled,
        Several,
        Clear,
        Relevance,
        Blocked,
        Drift,
        Guarantees,
    )
}


def main(arguments: list[str] | None = None) -> None:
    """Run one study or all, print the tables, and write the page of claims."""
    given = _parser().parse_args(arguments)
    results = given.out or (ROOT / "reproduction" if given.quick else ROOT / "studies" / "results")
    try:
        scale = Scale(quick=given.quick, full=given.full, seeds=given.seeds, first_seed=given.seed)
        studies = [STUDIES[name](given.data) for name in (STUDIES if given.name == "all" else [given.name])]
        for study in studies:
            study.units(study.settings(scale))  # what is missing is told before hours of work, not after
    except (ValueError, FileNotFoundError) as error:
        sys.exit(f"reproduce: {error}")
    for study in studies:
        folder = study.name if given.seed is None else f"{study.name}_from_{given.seed}"
        conclusion = run(study, results / folder, scale)
        print(page(study, conclusion, () if scale.quick else conclusion.checks), end="\n\n", flush=True)
        if conclusion.readme and scale == Scale() and given.out is None:
            quote(ROOT / "README.md", conclusion.readme)
    print(f"Wrote {results} and {write_claims(results, STUDIES).name}")


def quote(readme: Path, table: str) -> None:
    """Put a table between its marks in the README."""
    start, end = "<!-- real data -->", "<!-- /real data -->"
    before, rest = readme.read_text().split(start)
    readme.write_text(f"{before}{start}\n{table}\n{end}{rest.split(end)[1]}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "reproduce",
        description="Run a study again: its units of work that are not done yet, then its tables and figures.",
    )
    parser.add_argument("name", choices=[*STUDIES, "all"])
    parser.add_argument("--quick", action="store_true", help="a small version of about a minute, into reproduction/")
    parser.add_argument("--full", action="store_true", help="the paper's sizes where ours are smaller; takes hours")
    parser.add_argument("--seeds", type=int, help="number of seeds")
    parser.add_argument("--seed", type=int, help="the first seed; results go to NAME_from_SEED")
    parser.add_argument("--data", type=Path, help="folder of the regression sets, NAME.npz with X (n, d) and y (n,)")
    parser.add_argument("--out", type=Path, help="folder for results, instead of studies/results/")
    return parser


if __name__ == "__main__":
    main()
