r"""Age, gender, beard and bald of the drawn faces, by the equations that generate them.

.. math::

    a &= s(u_a), \qquad s(u) = u + \tfrac{1}{4} \bigl(\sqrt{1 + u^2} - 1.3545\bigr), \\
    g &= 0.2 + 0.6 \sinh\bigl(\tfrac{1}{2} \sinh^{-1}(8 (u_g - 0.2))\bigr), \\
    b &= -0.85 + h \, (1.95 + 0.5 \tanh a) + (0.1 + 0.7 h) \, u_b, \qquad h = \sigma(4 (g - 0.2)), \\
    l &= 0.35 \, a + 0.5 \, g + 0.78 \, s(u_l),

with :math:`a, g, b, l` age, gender, beard and bald, larger where a face is older, more male, more bearded and balder,
:math:`\sigma` the sigmoid and independent :math:`u \sim N(0, 1)`. All are standardised, to a few hundredths, as the
logits of classifiers are that stand for these attributes in photographs.

Every law increases strictly in its noise, is smooth everywhere and has its inverse in closed form, which decides their
shape. The branch of a hyperbola :math:`s` is skew: a quadratic equation inverts it. Gender has two humps, the law of
:math:`v = 8 (u_g - 0.2)` being steep at 0 and flat beyond; because :math:`\sinh 2 \theta = 2 \sinh \theta \cosh
\theta`, its inverse is :math:`v = 2 w \sqrt{1 + w^2}` at :math:`w = (g - 0.2) / 0.6`. A beard opens by a gate
:math:`h` at the antimode: women have none at any age, and hardly vary; among men it rises with age,
saturates, and varies much. So gender explains a beard far better than age, and age explains none of a woman's. Bald is
linear in its causes, with most of its variance in its noise.

=====  ======  ======  =====================  ======  ======  ======
..     mean    sd      correlation with age   gender  beard   bald
=====  ======  ======  =====================  ======  ======  ======
age     0.00    1.01    1                      0       0.13    0.35
gender  0.01    0.99    0                      1       0.81    0.50
beard  -0.03    0.99    0.13                   0.81    1       0.45
bald    0.00    0.99    0.35                   0.50    0.45    1
=====  ======  ======  =====================  ======  ======  ======

References:
    Deep Backtracking Counterfactuals for Causally Compliant Explanations (Kladny et al., 2024), section 4.2: the
        attributes as standardised logits, and that gender explains a beard much better than age.
    CausalVAE: Disentangled Representation Learning via Neural Structural Causal Models (Yang et al., 2021): the graph.
    Sinh-arcsinh distributions (Jones and Pewsey, 2009): the laws of age and of gender.
"""

__all__ = [
    "GRAPH",
    "abduct_age",
    "abduct_bald",
    "abduct_beard",
    "abduct_gender",
    "laws",
    "predict_age",
    "predict_bald",
    "predict_beard",
    "predict_gender",
]

from collections.abc import Mapping

import torch
from torch import Tensor

from deepbc.graph import CausalGraph
from deepbc.mechanisms import Equation
from deepbc.mechanisms.registry import law

GRAPH = CausalGraph.parse("age, gender -> beard; age, gender -> bald")

# The second is the mean of the root, so that the mean of a skew number is 0.
SKEW, ROOT = 0.25, 1.3545
ANTIMODE, SPREAD, STEEP = 0.2, 0.6, 8.0

Parents = Mapping[str, Tensor]


def laws() -> dict[str, Equation]:
    """Creates the true mechanisms of the four attributes."""
    return {
        "age": Equation(predict=predict_age, abduct=abduct_age),
        "gender": Equation(predict=predict_gender, abduct=abduct_gender),
        "beard": Equation(predict=predict_beard, abduct=abduct_beard),
        "bald": Equation(predict=predict_bald, abduct=abduct_bald),
    }


@law("faces.age.predict")
def predict_age(u: Tensor, parents: Parents) -> Tensor:
    """Computes age from its noise."""
    return _skewed(u)


@law("faces.age.abduct")
def abduct_age(x: Tensor, parents: Parents) -> Tensor:
    """Computes the noise of age."""
    return _straight(x)


@law("faces.gender.predict")
def predict_gender(u: Tensor, parents: Parents) -> Tensor:
    """Computes gender from its noise."""
    return ANTIMODE + SPREAD * torch.sinh(0.5 * torch.asinh(STEEP * (u - ANTIMODE)))


@law("faces.gender.abduct")
def abduct_gender(x: Tensor, parents: Parents) -> Tensor:
    """Computes the noise of gender."""
    w = (x - ANTIMODE) / SPREAD

    return ANTIMODE + 2 / STEEP * w * (1 + w * w).sqrt()


@law("faces.beard.predict")
def predict_beard(u: Tensor, parents: Parents) -> Tensor:
    """Computes beard from its noise, age and gender."""
    middle, scale = _beard(parents)

    return middle + scale * u


@law("faces.beard.abduct")
def abduct_beard(x: Tensor, parents: Parents) -> Tensor:
    """Computes the noise of beard, given age and gender."""
    middle, scale = _beard(parents)

    return (x - middle) / scale


@law("faces.bald.predict")
def predict_bald(u: Tensor, parents: Parents) -> Tensor:
    """Computes bald from its noise, age and gender."""
    return 0.35 * parents["age"] + 0.5 * parents["gender"] + 0.78 * _skewed(u)


@law("faces.bald.abduct")
def abduct_bald(x: Tensor, parents: Parents) -> Tensor:
    """Computes the noise of bald, given age and gender."""
    return _straight((x - 0.35 * parents["age"] - 0.5 * parents["gender"]) / 0.78)


def _beard(parents: Parents) -> tuple[Tensor, Tensor]:
    h = torch.sigmoid(4 * (parents["gender"] - ANTIMODE))

    return -0.85 + h * (1.95 + 0.5 * parents["age"].tanh()), 0.1 + 0.7 * h


def _skewed(u: Tensor) -> Tensor:
    return u + SKEW * ((1 + u * u).sqrt() - ROOT)


def _straight(x: Tensor) -> Tensor:
    """Inverts the skew, the smaller root of its quadratic equation."""
    y = x + SKEW * ROOT

    return (y - SKEW * (y * y + 1 - SKEW**2).sqrt()) / (1 - SKEW**2)
