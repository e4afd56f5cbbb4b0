r"""How a drawn face is painted, layer by layer, from four attributes and the numbers of a style.

Every attribute acts through a few smooth, monotone and bounded ramps, in a place of its own: age by wrinkles, grey hair
and sagging lids and cheeks; gender by jaw, neck, brows, lips and the length of the hair; beard by how dense and how
long it is; bald by a hairline that rises, and hair that thins, until only the sides are left. Lengths are those of
`deepbc.datasets.raster`: the head is nearly three quarters of an image high.
"""

__all__ = ["PARTS", "Face", "paint"]

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from deepbc.datasets.raster import Canvas, arc, ellipse, length, segment

# The parts of a style, and how many standard-normal numbers each has.
PARTS = {
    "background": 3,
    "light": 1,
    "place": 2,
    "tilt": 1,
    "clothes": 3,
    "skin": 1,
    "width": 1,
    "height": 1,
    "jaw": 1,
    "eye_size": 1,
    "eye_distance": 1,
    "eye_colour": 1,
    "brow": 1,
    "nose": 1,
    "mouth": 1,
    "smile": 1,
    "hair_colour": 2,
    "hair_length": 1,
}

# Colours as red, green and blue. A ramp bends from the first to the last towards the one between.
SKIN = ((255, 226, 203), (226, 164, 120), (112, 66, 44))
HAIR = ((24, 20, 22), (104, 58, 30), (232, 192, 118))
IRIS = ((66, 40, 22), (92, 104, 56), (92, 150, 196))
GREY, WHITE, BLACK, RED = (206, 206, 210), (250, 250, 248), (20, 16, 18), (196, 44, 62)
Style = Mapping[str, tuple[Tensor, ...]]
Colours = tuple[tuple[float, float, float], ...]

ZOOM = 1.13  # lengths on the head are so much larger on the image
EYES, NOSE, MOUTH = -0.06, 0.21, 0.385  # below the middle of the face
STRANDS = 26.0  # of hair, by the length of their waves


@dataclass(frozen=True, slots=True, eq=False)
class Face:
    """What is painted: the attributes and the style of each row, and the place of each pixel on the head.

    Args:
        age: Larger is older, with shape `(rows, 1, 1)`, as all attributes.
        gender: Larger is more male.
        beard: Larger is more.
        bald: Larger is balder.
        style: The numbers of each part of the style, with shape `(rows, 1, 1)` each.
        x: To the right of the middle line of the face, with shape `(rows, size, size)`.
        y: Below the middle of the face.
        side: Away from the middle line: eyes, brows and ears are painted in pairs.
    """

    age: Tensor
    gender: Tensor
    beard: Tensor
    bald: Tensor
    style: Style
    x: Tensor
    y: Tensor
    side: Tensor

    def z(self, part: str, k: int = 0) -> Tensor:
        """A number of the style."""
        return self.style[part][k]

    @property
    def male(self) -> Tensor:
        """From 0 to 1."""
        return torch.sigmoid(1.8 * self.gender)

    @property
    def old(self) -> Tensor:
        """From 0 to 1."""
        return torch.sigmoid(1.3 * (self.age - 0.9))

    @property
    def skin(self) -> Tensor:
        return _ramp(SKIN, torch.sigmoid(1.1 * self.z("skin") - 0.9))

    @property
    def hair(self) -> Tensor:
        natural = _ramp(HAIR, torch.sigmoid(1.3 * self.z("hair_colour", 0) - 0.4))
        red = torch.sigmoid(2 * self.z("hair_colour", 1) - 2)
        grey = torch.sigmoid(1.7 * (self.age - 1.0))

        return (natural + _colour((34, 0, -12), red) * red.unsqueeze(1)).lerp(_colour(GREY, red), grey.unsqueeze(1))

    @property
    def width(self) -> Tensor:
        """Half the width of the head."""
        return 0.475 * (0.05 * self.z("width")).exp()

    @property
    def height(self) -> Tensor:
        """Half the height of the head."""
        return 0.64 * (0.04 * self.z("height")).exp()

    @property
    def across(self) -> Tensor:
        """Half the width of the head at the height of each pixel, were it an ellipse: chin, jaw and cheeks."""
        down = (self.y / self.height).clamp(0.0, 1.3)
        narrow = 0.24 - 0.26 * self.male - 0.04 * self.z("jaw")
        sag = 0.16 * self.age.div(2).tanh()

        return self.width * (1 + down * down * (sag * (1.2 - down) - narrow))


def paint(size: int, form: Tensor, attributes: Sequence[Tensor]) -> Tensor:
    """Paints faces, with shape `(rows, 3, size, size)`, from 0 to 255.

    Args:
        size: The pixels on each side.
        form: The numbers of the styles, with shape `(rows, form)`.
        attributes: Age, gender, beard and bald, with shape `(rows,)` each.
    """
    style = _style(form)
    centres = (torch.arange(size, dtype=torch.float32, device=form.device) + 0.5) * (2 / size) - 1
    x, y = torch.meshgrid(centres, centres, indexing="xy")
    face = _placed(x, y, style, attributes)

    canvas = Canvas(_ground(face, x, y), 2 / size / ZOOM)
    outline, opening = _outline(face), _opening(face)
    # Hair behind the head ends a little under that in front, lest their common edge be painted twice.
    canvas.wash(canvas.between(outline, opening - 0.08), 0.7 * face.hair)
    for layer in (_body, _head, _wrinkles, _beard, _nose, _mouth, _eyes):
        layer(canvas, face)
    _hair(canvas, face, canvas.between(outline, -opening))

    return (canvas.image * (1 + 0.1 * face.z("light").tanh() * x).unsqueeze(1)).clamp(0.0, 255.0)


def _style(form: Tensor) -> Style:
    """The numbers of each part, bent to stay within 4 standard deviations, where a face is still one."""
    columns = (4 * (form / 4).tanh()).float().T[..., None, None]

    return {name: tuple(part) for name, part in zip(PARTS, columns.split(list(PARTS.values())), strict=True)}


def _placed(x: Tensor, y: Tensor, style: Style, attributes: Sequence[Tensor]) -> Face:
    """Moves the figure and turns it about the chin."""
    (turn,), (right, down), chin = style["tilt"], style["place"], 0.6
    cos, sin = (0.045 * turn).cos(), (0.045 * turn).sin()
    x, y = x / ZOOM - 0.022 * right, y / ZOOM - 0.018 * down - 0.01 - chin
    x, y = cos * x + sin * y, chin - sin * x + cos * y
    age, gender, beard, bald = (each.float()[:, None, None] for each in attributes)

    return Face(age, gender, beard, bald, style, x, y, length(x, torch.zeros_like(x)))


def _ground(face: Face, x: Tensor, y: Tensor) -> Tensor:
    """The background, a little darker towards the bottom."""
    tone = [150 + 60 * (0.45 * face.z("background", k) + 0.7 * face.z("background", 0)).tanh() for k in range(3)]

    return torch.stack(tone, dim=1) * (1 - 0.12 * y).expand(1, 1, *x.shape)


def _outline(face: Face) -> Tensor:
    """The distance to the outline of the hair, which is cut at the bottom."""
    thin = torch.sigmoid(1.6 * (face.bald - 1.2))
    volume = 0.055 + 0.05 * (1 - face.male)
    up = face.height + 0.12 * (1 - thin) - 0.02 * face.bald.div(2).tanh() - 0.01
    wave = 1 + 0.1 * (1 - face.male) * face.y.clamp(0.0, 1.0)
    cap = ellipse(face.side, face.y.clamp_max(0.0), (face.width + volume) * wave, up)
    end = -0.06 + 0.85 * (1 - face.male) + 0.05 * face.z("hair_length") * (1.1 - face.male)

    return _both(cap, face.y - end, 0.1)


def _opening(face: Face) -> Tensor:
    """The distance to the edge of the opening of the hair for the face, whose top is the hairline."""
    thin = torch.sigmoid(1.6 * (face.bald - 1.5))
    up = 0.43 + 0.07 * face.bald.div(2).tanh() + 0.38 * thin
    wide = face.width * (0.9 + 0.05 * face.male) + 0.3 * face.y.clamp(0.0, 1.0).square()

    return ellipse(face.side, face.y.clamp_max(0.0), wide, up)


def _body(canvas: Canvas, face: Face) -> None:
    tone = torch.cat([120 + 90 * face.z("clothes", k).tanh() for k in range(3)], dim=1).reshape(-1, 3, 1, 1)
    broad = 0.6 + 0.1 * face.male
    canvas.fill(ellipse(face.side, face.y - 1.22, broad + 0.1, 0.5), tone)

    neck = (face.side - (0.19 + 0.06 * face.male)).maximum((face.y - 0.55).abs() - 0.3)
    canvas.fill(neck, 0.84 * face.skin)
    canvas.fill(ellipse(face.side, face.y - 0.78, 0.25 + 0.03 * face.male, 0.14), 0.84 * face.skin)


def _head(canvas: Canvas, face: Face) -> None:
    skin = face.skin
    canvas.fill(ellipse(face.side - face.width, face.y + 0.01, 0.06, 0.115), 0.88 * skin)
    canvas.fill(ellipse(face.side - face.width - 0.01, face.y + 0.01, 0.03, 0.07), 0.72 * skin)

    d = ellipse(face.side, face.y, face.across, face.height)
    canvas.fill(d, skin)
    # Round towards the edge, darker on the side away from the light.
    edge = (1 + d / 0.22).clamp(0.0, 1.0).square()
    away = torch.sigmoid(-4 * face.z("light") * face.x)
    canvas.wash(canvas.cover(d) * edge * (0.12 + 0.3 * away), 0.68 * skin)

    blush = _blob(face.side - 0.27, face.y - 0.17, 0.1, 0.08) * (0.3 - 0.2 * face.old)
    canvas.wash(blush, skin * _colour((1.0, 0.66, 0.62), face.age))


def _wrinkles(canvas: Canvas, face: Face) -> None:
    dark, deep = 0.55 * face.skin, 0.75 * face.old
    thin, thick = 0.012, 0.018
    eye, _, _ = _eye(face)

    for row, half in ((-0.31, 0.19), (-0.375, 0.22), (-0.44, 0.17)):
        canvas.stroke(arc(face.x, face.y - row, half, 0.02), thin, dark, 0.7 * deep)
    for up in (-0.045, 0.0, 0.045):
        start, end = (eye + 0.125, EYES + 0.3 * up), (eye + 0.175, EYES + 0.01 + 1.3 * up)
        canvas.stroke(segment(face.side, face.y, start, end), thin, dark, 0.8 * deep)
    canvas.stroke(arc(face.side - eye, face.y - EYES - 0.075, 0.085, -0.03), thin, dark, 0.9 * deep)
    canvas.stroke(segment(face.side, face.y, (0.1, NOSE - 0.01), (0.175, MOUTH - 0.03)), thick, dark, deep)
    canvas.stroke(segment(face.side, face.y, (0.195, MOUTH + 0.05), (0.205, MOUTH + 0.12)), thin, dark, 0.8 * deep)


def _beard(canvas: Canvas, face: Face) -> None:
    dense = torch.sigmoid(2.6 * (face.beard - 0.95))
    grown = torch.sigmoid(1.5 * (face.beard - 1.8))

    # Below a line from the ears to the corners of the mouth, and over the edge of the chin as it grows.
    line = (MOUTH - 0.01 - 6.5 * (face.side - 0.17).clamp_min(0.0).square()).clamp_min(0.0)
    low = face.height + 0.16 * grown
    d = ellipse(face.side, face.y, face.across + 0.02 * grown, low)
    below = torch.sigmoid((face.y - line) / 0.02)
    moustache = arc(face.x, face.y - MOUTH + 0.035, 0.15, 0.05) - 0.038
    on = (below * canvas.cover(d)).maximum(torch.sigmoid(-moustache / 0.012))
    canvas.wash(dense * 0.96 * on, 0.92 * face.hair)


def _nose(canvas: Canvas, face: Face) -> None:
    skin, half = face.skin, 0.07 * (0.13 * face.z("nose")).exp() * (1 + 0.12 * face.male)
    away = torch.sigmoid(-6 * face.z("light").tanh() * face.x.sign())
    bridge = _blob(face.side - 0.045, face.y - 0.06, 0.022, 0.12)
    canvas.wash(bridge * (0.1 + 0.3 * away), 0.6 * skin)
    canvas.wash(_blob(face.x, face.y - NOSE + 0.05, 0.04, 0.05) * 0.35, (1.12 * skin).clamp_max(255.0))
    canvas.stroke(arc(face.x, face.y - NOSE + 0.01, half, -0.03), 0.02, 0.58 * skin, 0.8)
    canvas.wash(canvas.dot(length(0.7 * (face.side - 0.5 * half), face.y - NOSE - 0.005), 0.012), 0.35 * skin)


def _mouth(canvas: Canvas, face: Face) -> None:
    half = 0.145 * (0.08 * face.z("mouth")).exp()
    bend = 0.028 + 0.022 * face.z("smile")
    full = 1.15 - 0.5 * face.male - 0.12 * face.age.div(2).tanh()
    p = (face.side / half).clamp_max(1.0)
    open_ = 1 - p * p
    y = face.y - MOUTH - bend * (open_ - 0.5)
    beyond = face.side - half

    pale, painted = 0.82 * face.skin * _colour((1.0, 0.74, 0.74), bend), 0.55 * (1 - face.male)
    lips = pale.lerp(_colour(RED, bend), painted.unsqueeze(1))
    bow = 1 - 0.3 * torch.exp(-(face.side / 0.035).square())
    canvas.wash(canvas.between(-y - 0.042 * full * open_ * bow, y), 0.9 * lips)
    canvas.wash(canvas.between(-y, y - 0.056 * full * open_), lips)
    canvas.stroke(length(y, beyond.clamp_min(0.0)), 0.016, 0.4 * lips, 0.9)


def _eye(face: Face) -> tuple[Tensor, Tensor, Tensor]:
    """How far an eye is from the middle line, and half its width and its height."""
    open_ = (0.09 * face.z("eye_size")).exp() * (1 - 0.22 * face.age.div(2).tanh())

    return 0.2 + 0.012 * face.z("eye_distance"), 0.098 + 0.003 * face.z("eye_size"), 0.051 * open_


def _eyes(canvas: Canvas, face: Face) -> None:
    middle, half, high = _eye(face)
    x, y = face.side - middle, face.y - EYES
    p = (x / half).clamp(-1.0, 1.0)
    lid = 1 - p * p
    droop = 0.012 * face.age.div(2).tanh() * p * lid
    inside = canvas.between(-y - high * lid + droop, y - 0.75 * high * lid)
    white, black = _colour(WHITE, middle), _colour(BLACK, middle)

    canvas.wash(inside, white)
    centre = (face.x - middle * face.x.sign(), y + 0.006)
    iris = _ramp(IRIS, torch.sigmoid(1.6 * face.z("eye_colour") - 0.5))
    canvas.wash(inside * canvas.dot(length(*centre), 0.05), 0.75 * iris)
    canvas.wash(inside * canvas.dot(length(*centre), 0.04), iris)
    canvas.wash(inside * canvas.dot(length(*centre), 0.022), black)
    canvas.wash(inside * canvas.dot(length(centre[0] + 0.016, centre[1] + 0.016), 0.012), white)

    lash = length(x - p * half, y + high * lid - droop)
    canvas.stroke(lash, 0.028 - 0.012 * face.male, black, 0.9)
    canvas.stroke(arc(x, y + 0.012, half, high + 0.012), 0.012, 0.6 * face.skin, 0.6)

    thick = (0.02 + 0.026 * face.male) * (0.12 * face.z("brow")).exp()
    brow = arc(x - 0.005, y + 0.105 + 0.008 * face.z("brow") - 0.012 * face.male, 0.115, 0.045 - 0.02 * face.male)
    canvas.stroke(brow, thick, 0.75 * face.hair, 0.95)


def _hair(canvas: Canvas, face: Face, where: Tensor) -> None:
    """The hair on top and on the sides."""
    # What is left of a wave where a pixel takes its mean.
    left = torch.sinc(face.x.new_tensor(STRANDS * canvas.pixel / (2 * math.pi)))
    strands = left * torch.sin(STRANDS * face.side + 9 * face.y)
    shine = _blob(face.x - 0.1 * face.z("light"), face.y + 0.58, 0.26, 0.07)
    tone = face.hair * (1 + 0.07 * strands + 0.25 * shine).unsqueeze(1)
    canvas.wash(where, tone)


def _both(d: Tensor, e: Tensor, radius: float) -> Tensor:
    """The distance to the edge of what two shapes share, with a rounded corner."""
    corner = length((d + radius).clamp_min(0.0), (e + radius).clamp_min(0.0))

    return corner - radius + (d.maximum(e) + radius).clamp_max(0.0)


def _blob(x: Tensor, y: Tensor, across: float, down: float) -> Tensor:
    return torch.exp(-((x / across).square() + (y / down).square()))


def _ramp(colours: Colours, p: Tensor) -> Tensor:
    """A colour on the way from the first to the third, by way of the second, with shape `(rows, 3, 1, 1)`."""
    first, second, third = (_colour(each, p) for each in colours)
    p = p.unsqueeze(1)

    return first.lerp(second, p).lerp(second.lerp(third, p), p)


def _colour(parts: tuple[float, float, float], like: Tensor) -> Tensor:
    return like.new_tensor(parts)[:, None, None]
