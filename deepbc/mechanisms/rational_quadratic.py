r"""Monotone rational-quadratic interpolation between knots, with linear tails, without a graph of what led to it.

References:
    Piecewise Rational Quadratic Interpolation (Gregory and Delbourgo, 1982).
"""

__all__ = ["Bins"]

import torch
from torch import Tensor


class Bins:
    r"""Creates the bins of a map of one component, with what they share for all rows computed beforehand.

    With :math:`z` the place in a bin of width :math:`w` and height :math:`h`, :math:`s = h / w`, slopes :math:`d_0` and
    :math:`d_1` at its ends, :math:`c = d_0 + d_1 - 2 s` and :math:`q = s + c z (1 - z)`,

    .. math:: y = y_0 + \frac{h}{q} \, z (d_0 + (s - d_0) z), \qquad
              \frac{dy}{dx} = \frac{s^2}{q^2} \left( d_0 + z (2 (s - d_0) + c z) \right).

    Args:
        knots_in: Where the bins end on the side of the value, with shape `(bins + 1,)`.
        knots_out: Where they end on the side of the noise.
        slopes: The slopes there.
        identity: Whether it is the identity outside the bins, to the last digit; else it goes on as at its ends.
    """

    def __init__(self, knots_in: Tensor, knots_out: Tensor, slopes: Tensor, *, identity: bool) -> None:
        self.knots_in, self.knots_out = knots_in.contiguous(), knots_out.contiguous()
        # A bin of width 1 and of the slope of the end on either side.
        one, none = torch.ones_like(slopes[:1]), torch.zeros_like(slopes[:1])
        first, last = (one, one) if identity else (slopes[:1], slopes[-1:])
        x0, y0 = (
            torch.cat([none, knots[:-1], none] if identity else [knots[:1], knots])
            for knots in (self.knots_in, self.knots_out)
        )
        w = torch.cat([one, knots_in.diff(), one])
        h = torch.cat([first, knots_out.diff(), last])
        d0, d1 = torch.cat([first, slopes[:-1], last]), torch.cat([first, slopes[1:], last])
        s = h / w
        self.table = (x0, w, y0, h, s, d0, s - d0, d0 + d1 - 2 * s)

    def inward(self, x: Tensor) -> Tensor:
        """Maps toward the noise."""
        return torch.where(x.isinf(), x, self._inward(x.flatten())[0].view_as(x))

    def outward(self, y: Tensor) -> Tensor:
        """Maps toward the value."""
        return torch.where(y.isinf(), y, self._outward(y.flatten())[0].view_as(y))

    def inward_and_jacobian(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Maps toward the noise, with the slope."""
        y, z, s, d0, more, c, q = self._inward(x.flatten())

        return y.view_as(x), _steep(z, s, d0, more, c, q).view_as(x)

    def outward_and_jacobian(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Maps toward the value, with the slope."""
        x, z, s, d0, more, c = self._outward(y.flatten())

        return x.view_as(y), _steep(z, s, d0, more, c, _divisor(z, s, c)).reciprocal().view_as(y)

    def _inward(self, x: Tensor) -> tuple[Tensor, ...]:
        x0, w, y0, h, s, d0, more, c = self._look_up(x, self.knots_in)
        z = (x - x0) / w
        q = _divisor(z, s, c)

        return torch.addcmul(y0, h, z * torch.addcmul(d0, more, z) / q), z, s, d0, more, c, q

    def _outward(self, y: Tensor) -> tuple[Tensor, ...]:
        x0, w, y0, h, s, d0, more, c = self._look_up(y, self.knots_out)
        up = y - y0
        # The root of a quadratic equation, in the form that does not cancel.
        b, rise = torch.addcmul(h * d0, up, c, value=-1), s * up
        root = torch.addcmul(b.square(), torch.addcmul(h * more, up, c), rise, value=4).sqrt()
        z = 2 * rise / (b + root)

        return torch.addcmul(x0, w, z), z, s, d0, more, c

    def _look_up(self, at: Tensor, knots: Tensor) -> tuple[Tensor, ...]:
        bins = torch.bucketize(at.contiguous(), knots)

        # Column by column, because then each of them lies together.
        return tuple(column.index_select(0, bins) for column in self.table)


def _divisor(z: Tensor, s: Tensor, c: Tensor) -> Tensor:
    # Far outside the box the square would overflow.
    inside = z.clamp(0, 1)

    return torch.addcmul(s, c, inside - inside.square())


def _steep(z: Tensor, s: Tensor, d0: Tensor, more: Tensor, c: Tensor, q: Tensor) -> Tensor:
    return torch.addcmul(d0, z, torch.addcmul(2 * more, c, z)) * (s / q).square()
