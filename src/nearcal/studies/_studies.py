"""The studies by name, in the paper's order."""

from nearcal.studies._study import Study
from nearcal.studies.gaussian import Gaussian

STUDIES: dict[str, Study] = {study.name: study for study in (Gaussian(),)}
