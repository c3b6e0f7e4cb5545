"""The studies by name, in the paper's order."""

from nearcal.studies._study import Study
from nearcal.studies.diamonds import Diamonds
from nearcal.studies.gaussian import Gaussian
from nearcal.studies.rosenbrock import Rosenbrock
from nearcal.studies.simulation import Simulation

STUDIES: dict[str, Study] = {study.name: study for study in (Gaussian(), Rosenbrock(), Simulation(), Diamonds())}
