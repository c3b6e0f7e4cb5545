"""Section 4.2: Gamma responses around the Rosenbrock function, a network with dropout on their logarithm."""

from nearcal.studies.rosenbrock._study import Rosenbrock

__all__ = ["Rosenbrock"]
