"""The paper's studies, each reproduced by one command: ``nearcal reproduce NAME``.

A study is a list of units of work and a conclusion; finished units are kept, so that an interrupted run continues.
Needs the extra "studies".
"""

from nearcal.studies._claims import Claim
from nearcal.studies._claims_page import write_claims
from nearcal.studies._demo import demo
from nearcal.studies._reproduce import Reproduction, reproduce
from nearcal.studies._studies import STUDIES
from nearcal.studies._study import Check, Conclusion, Outcome, Scale, Study, Unit

__all__ = [
    "STUDIES",
    "Check",
    "Claim",
    "Conclusion",
    "Outcome",
    "Reproduction",
    "Scale",
    "Study",
    "Unit",
    "demo",
    "reproduce",
    "write_claims",
]
