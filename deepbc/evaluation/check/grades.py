r"""How much a finding matters, whatever the number of rows: effect sizes and their grades.

A p-value says whether a finding may be chance; with enough rows nothing is. An effect size says how large the finding
is, and does not grow with the rows. Cohen calls a shift of means of 0.2 standard deviations small and one of 0.5
medium, and a correlation of 0.1 small and one of 0.3 medium. What is less than small is graded negligible, what is less
than medium some, the rest strong. All measures here are held against these numbers:

- a distance of noise from the standard normal, in standard deviations, against 0.2 and 0.5 as they are;
- a strength of dependence, from 0 to 1, against 0.1 and 0.3 as they are; where the graph has no edge, that of the noise
  on the value of the other variable, given the parents, as in a partial correlation;
- a loss in nats a row against :math:`d^2 / 2`, which a Gaussian law loses whose mean is off by :math:`d` deviations;
- the root of the energy coefficient against 0.1 and 0.3. A shift of every variable by :math:`d = 0.2` brings about 0.1,
  and by 0.6, which is a point-biserial correlation of 0.3, about 0.3.

References:
    Statistical power analysis for the behavioral sciences (Cohen, 1988), sections 2.2 and 3.2.
"""

__all__ = ["NEGLIGIBLE", "NOT_JUDGED", "NOT_SEEN", "SCALES", "SOME", "STRONG", "Scale", "nats", "worst"]

import math
from collections.abc import Iterable
from dataclasses import dataclass

NEGLIGIBLE, SOME, STRONG = "negligible", "some", "strong"
NOT_SEEN, NOT_JUDGED = "not seen", "not judged"
SMALL_SHIFT, MEDIUM_SHIFT = 0.2, 0.5
SMALL_CORRELATION, MEDIUM_CORRELATION = 0.1, 0.3


@dataclass(frozen=True, slots=True)
class Scale:
    """The unit of an effect size, and from where on it is of some size, and strong.

    Example:
        >>> Scale("sd", 0.2, 0.5).grade(0.3)
        'some'
    """

    unit: str
    some: float
    strong: float

    def grade(self, size: float) -> str:
        """Grades an effect size that is not chance."""
        return STRONG if size >= self.strong else SOME if size >= self.some else NEGLIGIBLE


CORRELATION = Scale("correlation", SMALL_CORRELATION, MEDIUM_CORRELATION)
# By the kind of a claim.
SCALES = {
    "calibration": Scale("sd", SMALL_SHIFT, MEDIUM_SHIFT),
    "components": CORRELATION,
    "likelihood": Scale("nats", SMALL_SHIFT**2 / 2, MEDIUM_SHIFT**2 / 2),
    "independence": CORRELATION,
    "parents": CORRELATION,
    "samples": Scale("root energy coefficient", SMALL_CORRELATION, MEDIUM_CORRELATION),
}


def nats(strength: float) -> float:
    """The mutual information, in nats a row, of two normals with such a correlation: -log(1 - r^2) / 2."""
    return -0.5 * math.log1p(-(min(strength, 1 - 1e-9) ** 2))


def worst(grades: Iterable[str], otherwise: str = NOT_SEEN) -> str:
    """Returns the highest of some grades."""
    order = [NEGLIGIBLE, SOME, STRONG]

    return max((grade for grade in grades if grade in order), key=order.index, default=otherwise)
