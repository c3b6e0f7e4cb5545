"""Section 4.4: prices of diamonds, by a Gamma regression and by a network with a Gamma likelihood."""

from nearcal.studies.diamonds._study import Diamonds

__all__ = ["Diamonds"]
