r"""Drawn faces in colour, so that the true counterfactual of a portrait is known.

Four attributes follow the equations of `deepbc.datasets.face_equations`, and the image is a function of them and of a
style,

.. math:: x = f(a, g, b, l, z),

with age :math:`a`, gender :math:`g`, beard :math:`b` and bald :math:`l` as there, and :math:`z` the standard-normal
numbers of the style: skin, shape of the head, eyes, brows, nose, mouth, colour and length of the hair, light,
background, clothes, place and tilt. `deepbc.datasets.face_painter` says how :math:`f` paints. Style and attributes are
independent, so the true counterfactual of a face is the same style, drawn with the counterfactual attributes.

The graph, the four attributes, the size and the labels are those of the photographs of CelebA, where no such truth is
known. A label is 1 with probability

.. math:: P(y = 1 \mid v) = \sigma\bigl(\pm (v - c) / 0.25\bigr),

that is, the attribute :math:`v` crosses a threshold :math:`c` up to logistic noise. So the logit of a label is linear
in its attribute, and the standardised logit of a perfect classifier is the attribute itself. The thresholds make
labels about as frequent as CelebA's, except the bald, who are 2 % there and would be too few to learn from:

========  =========  ===========  ==========
label     attribute  1 where it   frequency
========  =========  ===========  ==========
Young     age        is low       0.77
Male      gender     is high      0.42
No_Beard  beard      is low       0.82
Bald      bald       is high      0.08
========  =========  ===========  ==========

References:
    Deep Backtracking Counterfactuals for Causally Compliant Explanations (Kladny et al., 2024), section 4.2.
    Deep Learning Face Attributes in the Wild (Liu, Luo, Wang and Tang, 2015): CelebA and its labels.
"""

__all__ = ["GRAPH", "Faces", "Styles", "draw", "draw_styles", "labels", "sample", "truth"]

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from deepbc._validation import check_batches, check_count, check_finite, check_names, check_shape, check_type
from deepbc.data.reading import read_column
from deepbc.datasets import face_equations, face_painter
from deepbc.graph import CausalGraph
from deepbc.numerics.seeding import generator

GRAPH = CausalGraph.parse("age, gender -> beard; age, gender -> bald; age, gender, beard, bald -> image")

ATTRIBUTES = ("age", "gender", "beard", "bald")
FORM = sum(face_painter.PARTS.values())
SIZE, SMALLEST, LARGEST = 64, 16, 128
CHUNK = 200_000  # pixels at once, few enough to stay in the cache of a processor

# The attribute of each label, the sign with which it counts, and its threshold.
LABELS = {
    "Young": ("age", -1, 0.8),
    "Male": ("gender", 1, 0.2),
    "No_Beard": ("beard", -1, 1.1),
    "Bald": ("bald", 1, 1.6),
}
BLUR = 0.25


@dataclass(frozen=True, slots=True, eq=False)
class Styles:
    r"""What an image is, apart from the attributes: its noise.

    Args:
        form: The standard-normal numbers :math:`z`, with shape `(*batch, form)`.
    """

    form: Tensor

    def select(self, rows: Any) -> "Styles":
        """Selects rows by an index, a slice or a mask."""
        return Styles(self.form[rows])


@dataclass(frozen=True, slots=True, eq=False)
class Faces:
    r"""Faces, and the styles that made them.

    Args:
        values: Age, gender, beard and bald, with shape `(rows,)`, and image, bytes with shape `(rows, 3, size, size)`,
            as `SCM.fit` takes them.
        styles: The style of each image.
    """

    values: Mapping[str, Tensor]
    styles: Styles


def sample(rows: int, *, seed: int | None = None, size: int = SIZE) -> Faces:
    """Draws faces: attributes by their equations, styles, and the images they make, rounded to bytes.

    Args:
        rows: The number of faces.
        seed: Same seed, same faces; None draws fresh ones.
        size: The pixels on each side, from 16 to 128.

    Example:
        >>> faces = sample(3, seed=0, size=32)
        >>> {name: tuple(value.shape) for name, value in faces.values.items()}
        {'age': (3,), 'gender': (3,), 'beard': (3,), 'bald': (3,), 'image': (3, 3, 32, 32)}
    """
    styles = draw_styles(rows, seed=seed)
    u = {name: torch.randn(rows, generator=generator(seed, name, "noise"), dtype=torch.float64) for name in ATTRIBUTES}

    values = {"age": face_equations.predict_age(u["age"], {}), "gender": face_equations.predict_gender(u["gender"], {})}
    values["beard"] = face_equations.predict_beard(u["beard"], values)
    values["bald"] = face_equations.predict_bald(u["bald"], values)
    values["image"] = _draw(styles, values, size, lambda image: image.round().byte())

    return Faces(values, styles)


def draw_styles(rows: int, *, seed: int | None = None) -> Styles:
    """Draws styles, all numbers of which are standard normal.

    Args:
        rows: The number of styles.
        seed: Same seed, same styles; None draws fresh ones.
    """
    check_count(rows, "draw_styles rows")

    return Styles(torch.randn(rows, FORM, generator=generator(seed, "form", "noise"), dtype=torch.float64))


def truth(styles: Styles, values: Mapping[str, Any], *, size: int = SIZE) -> Tensor:
    r"""Draws the true counterfactual images.

    Args:
        styles: The styles of the factual images.
        values: Counterfactual values, as an answer has them; those of the four attributes are used.
        size: The pixels on each side, from 16 to 128.

    Returns:
        The images :math:`x^*`, float32 from 0 to 255, with shape `(*batch, 3, size, size)`.

    Example:
        >>> faces = sample(3, seed=0)
        >>> bearded = truth(faces.styles, {**faces.values, "beard": 2.5})
        >>> changed = (bearded - faces.values["image"]).abs().amax((0, 1, 3))
        >>> bool((changed[:20] <= 1).all()), bool((changed[40:] > 20).any())
        (True, True)
    """
    check_names([name for name in ATTRIBUTES if name in values], ATTRIBUTES, "values")

    return _draw(styles, values, size, lambda image: image)


def draw(styles: Styles, age: Any, gender: Any, beard: Any, bald: Any, *, size: int = SIZE) -> Tensor:
    r"""Draws images, each from its own style and attributes alone, differentiable in attributes that are tensors.

    Args:
        styles: The styles. One style is drawn with all attributes.
        age: Age :math:`a`, any finite number, with shape `(*batch,)` or `()`. All that an attribute changes, it changes
            between about -3 and 3.
        gender: Gender :math:`g`, with shape `(*batch,)` or `()`; larger is more male.
        beard: Beard :math:`b`, with shape `(*batch,)` or `()`.
        bald: Bald :math:`l`, with shape `(*batch,)` or `()`.
        size: The pixels on each side, from 16 to 128. More of them draw the same face finer.

    Returns:
        The images, float32 from 0 to 255, with shape `(*batch, 3, size, size)`.

    Example:
        >>> draw(draw_styles(1, seed=0), [-2.0, 0.0, 2.0], gender=1, beard=0, bald=0).shape
        torch.Size([3, 3, 64, 64])
    """
    return _draw(styles, {"age": age, "gender": gender, "beard": beard, "bald": bald}, size, lambda image: image)


def labels(values: Mapping[str, Any], *, seed: int | None = None) -> dict[str, Tensor]:
    r"""Draws labels as CelebA has them: the attributes, beyond a threshold up to noise.

    Args:
        values: Values of the four attributes, with shape `(*batch,)` each.
        seed: Same seed, same noise; None draws afresh.

    Returns:
        `Young`, `Male`, `No_Beard` and `Bald`, each 0 or 1, with shape `(*batch,)`.

    Example:
        >>> labels({"age": [-3.0, 3.0], "gender": [3.0, -3.0], "beard": [3.0, -3.0], "bald": [3.0, -3.0]}, seed=0)
        {'Young': tensor([1, 0]), 'Male': tensor([1, 0]), 'No_Beard': tensor([0, 1]), 'Bald': tensor([1, 0])}
    """
    check_names([name for name in ATTRIBUTES if name in values], ATTRIBUTES, "values")
    read = _attributes(values)

    drawn = {}
    for label, (name, sign, threshold) in LABELS.items():
        probability = torch.sigmoid(sign * (read[name].detach() - threshold) / BLUR)
        uniform = torch.rand(probability.shape, generator=generator(seed, label, "label"), dtype=probability.dtype)
        drawn[label] = (uniform.to(probability.device) < probability).long()

    return drawn


def _draw(styles: Styles, values: Mapping[str, Any], size: int, finish: Callable[[Tensor], Tensor]) -> Tensor:
    """Checks, then draws and finishes chunk after chunk, because unfinished images are large."""
    check_count(size, "size", least=SMALLEST, most=LARGEST)
    check_type(styles, Styles, "styles")
    form, read = read_column(styles.form, "styles, 'form'"), _attributes(values)
    check_shape(tuple(form.shape), (FORM,), "styles, 'form'")
    check_finite(form, "styles, 'form'")
    batch = check_batches({"form": form.shape[:-1], **{name: each.shape for name, each in read.items()}})

    rows = [form.expand(*batch, FORM).reshape(-1, FORM), *(each.expand(batch).flatten() for each in read.values())]
    chunks = zip(*(each.split(max(1, CHUNK // size**2)) for each in rows), strict=True)
    images = [finish(face_painter.paint(size, form, attributes)) for form, *attributes in chunks]

    return torch.cat(images).reshape(*batch, 3, size, size)


def _attributes(values: Mapping[str, Any]) -> dict[str, Tensor]:
    """Reads and checks the four attributes; tensors keep the way back to where they come from."""
    read = {}
    for name in ATTRIBUTES:
        given, column = values[name], read_column(values[name], f"{name!r}")
        check_finite(column.unsqueeze(-1), f"{name!r}")
        read[name] = given.to(torch.float64) if isinstance(given, Tensor) else column

    return read
