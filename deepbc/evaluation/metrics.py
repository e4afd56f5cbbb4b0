r"""Figures by which counterfactuals are judged, one a row; lower is better, but for `reached`.

With :math:`n` variables :math:`A`, a distance :math:`m` and a causal model,

.. math::

    \text{plausible}(x^*) &= \frac{1}{n} \sum_A -\log p(x^*_A \mid x^*_{pa(A)}), \\
    \text{observed}(x, x^*) &= \frac{1}{n} \sum_A m(x_A, x^*_A), \\
    \text{causal}(x, x^*) &= \frac{1}{n} \sum_A m(u_A, u^*_A), \qquad u_A = f_A^{-1}(x_{pa(A)}, x_A).

They say nothing of whether an answer is one: *missed* is how far it is from what was asked, *reached* whether that is
near enough.

Of an image: *composition* is how far it comes back from its noise, *effectiveness* how far what is read from an answer
misses what was asked, *reversibility* how far an image is from itself after a question and the question back.

References:
    Deep Backtracking Counterfactuals for Causally Compliant Explanations (Kladny et al., 2024), appendix, "Quantitative
        Experiments".
    Measuring Axiomatic Soundness of Counterfactual Image Models (Monteiro et al., 2023): the three of images.
"""

__all__ = ["causal", "composition", "effectiveness", "missed", "observed", "plausible", "reached", "reversibility"]

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from deepbc._validation import check_between
from deepbc.numerics.truncated_normal import LOG_SQRT_2PI
from deepbc.queries.results import Counterfactual
from deepbc.scm.model import SCM

Values = Mapping[str, Tensor]
# A question: `backtrack` or `intervene`, or either with settings.
Ask = Callable[..., Counterfactual]


def plausible(scm: SCM, values: Values, *, constant: bool = True) -> Tensor:
    """Computes the mean negative log-density of each variable given its parents, in nats.

    Args:
        scm: The model, of the variables that count.
        values: Their counterfactual values, with shape `(rows,)`.
        constant: Whether the constant of the normal density counts, half the logarithm of 2 pi a variable; the paper's
            table leaves it out.
    """
    names = tuple(scm.graph)
    density = scm.log_prob({name: values[name] for name in names}) / len(names)

    return -density if constant else -density - LOG_SQRT_2PI


def observed(before: Values, after: Values, names: Sequence[str], *, power: float = 2.0) -> Tensor:
    """Computes the mean distance between factual and counterfactual values.

    Args:
        before: Factual values, with shape `(rows,)`.
        after: Counterfactual values.
        names: The variables that count.
        power: 2 for the squared distance, 1 for the absolute one.
    """
    check_between(power, 0.0, torch.inf, "power")

    return torch.stack([(after[name] - before[name]).abs() ** power for name in names]).mean(0)


def causal(scm: SCM, before: Values, after: Values, *, power: float = 2.0) -> Tensor:
    """Computes the mean distance between the noises behind factual and counterfactual values.

    Args:
        scm: The model, of the variables that count.
        before: Factual values, with shape `(rows,)`.
        after: Counterfactual values.
        power: 2 for the squared distance, 1 for the absolute one.
    """
    names = tuple(scm.graph)
    u, u_star = (scm.abduct({name: values[name] for name in names}) for values in (before, after))

    return observed(u, u_star, names, power=power)


def missed(scm: SCM, after: Values, asked: Mapping[str, Any]) -> Tensor:
    """Computes how far counterfactual values are from those that were asked for, at the largest, with shape `(rows,)`.

    Args:
        scm: The model, in whose standard deviations they are compared.
        after: Counterfactual values, with shape `(rows,)`.
        asked: The value that each variable was asked to have, one for all rows or one a row.
    """
    return torch.stack([(after[name] - value).abs() / scm.schema.sd(name) for name, value in asked.items()]).amax(0)


def reached(scm: SCM, after: Values, asked: Mapping[str, Any], *, within: float = 0.01) -> Tensor:
    """Tells which rows miss what was asked, as `missed` says it, by at most so much; the mean of it is their share.

    A row that has no answer, NaN, does not reach it.
    """
    check_between(within, 0.0, torch.inf, "within", closed=True)

    return missed(scm, after, asked) <= within


def composition(scm: SCM, rows: Values, image: str = "image") -> Tensor:
    """Computes the mean absolute error of each image that is drawn again from its noise, with shape `(rows,)`."""
    return _apart(scm.predict(scm.abduct(rows))[image], rows[image])


def effectiveness(answer: Counterfactual, read: Callable[[Any], Tensor], name: str) -> Tensor:
    """Computes how far what is read from the images of an answer misses what the answer says, with shape `(rows,)`.

    Args:
        answer: The answer.
        read: What reads the variable from the values of rows. Networks that took no part in the model judge it; where
            they made the variable, as classifiers of faces do, they say whether the image agrees with it.
        name: The variable.
    """
    said: Tensor = answer.values[name]

    return (read(answer.values) - said).abs()


def reversibility(scm: SCM, rows: Values, question: Values, ask: Ask, image: str = "image") -> Tensor:
    """Computes how far each image is from itself after a question and the question back, with shape `(rows,)`.

    Args:
        scm: The model.
        rows: The factual rows.
        question: What is asked; then the factual values of the same variables are asked of the answer.
        ask: `backtrack` or `intervene`.
        image: The image.
    """
    there = ask(scm, rows, question)
    back = ask(scm, there.values, {name: rows[name] for name in question})

    return _apart(back.values[image], rows[image])


def _apart(one: Tensor, two: Tensor) -> Tensor:
    return (one.double() - two.double()).abs().flatten(1).mean(1)
