"""The contracts as tests, for classes of your own: an `AssertionError` where one is broken, silence where all hold.

Each draws small problems whose answer is known by a closed form, by autograd or by a sum. No test runner is needed.

Example:
    >>> from deepbc import Absolute, Linear
    >>> check_distance(Absolute())
    >>> check_mechanism(Linear(), parents=1)
    SCM(p: Linear, x: Linear)
"""

__all__ = ["check_distance", "check_mechanism", "check_sampler", "check_solver"]

from deepbc.testing.distances import check_distance
from deepbc.testing.mechanisms import check_mechanism
from deepbc.testing.samplers import check_sampler
from deepbc.testing.solvers import check_solver
