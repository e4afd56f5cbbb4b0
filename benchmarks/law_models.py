"""Simulated models with known equations: waves, products, kinks, and noise of many shapes.

A law is `x = link(m(parents) + s(parents) n)`, with `n` a noise of mean 0 and variance 1, so that noise, density and
counterfactuals are known. Models that are marked as unseen were not looked at while laws were designed.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy import special, stats

MODE = 0.95
SPREAD = math.sqrt(1 - MODE**2)


def _two_modes_cdf(z):
    return 0.5 * special.ndtr((z - MODE) / SPREAD) + 0.5 * special.ndtr((z + MODE) / SPREAD)


def _two_modes_quantile(u):
    low, high, p = np.full_like(u, -20.0), np.full_like(u, 20.0), special.ndtr(u)
    for _ in range(70):
        middle = (low + high) / 2
        below = _two_modes_cdf(middle) < p
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return (low + high) / 2


@dataclass(frozen=True)
class Noise:
    """Maps standard normal noise to a shape of mean 0 and variance 1, and back; and the logarithm of its density."""

    outward: Callable
    inward: Callable
    log_prob: Callable


THIRD = math.sqrt(3)
SHAPES = {
    "normal": Noise(lambda u: u, lambda z: z, stats.norm.logpdf),
    "t3": Noise(
        lambda u: np.sign(u) * stats.t.isf(special.ndtr(-abs(u)), 3) / THIRD,
        lambda z: np.sign(z) * -special.ndtri(stats.t.sf(abs(z) * THIRD, 3)),
        lambda z: stats.t.logpdf(z * THIRD, 3) + math.log(THIRD),
    ),
    "uniform": Noise(
        lambda u: 2 * THIRD * (special.ndtr(u) - 0.5),
        lambda z: special.ndtri(np.clip(z / (2 * THIRD) + 0.5, 0, 1)),
        lambda z: np.where(abs(z) <= THIRD, -math.log(2 * THIRD), -np.inf),
    ),
    "exponential": Noise(
        lambda u: -special.log_ndtr(-u) - 1,
        lambda z: -special.ndtri(np.exp(-np.maximum(z + 1, 0))),
        lambda z: np.where(z >= -1, -(z + 1), -np.inf),
    ),
    "two modes": Noise(
        _two_modes_quantile,
        lambda z: np.where(z < 0, special.ndtri(_two_modes_cdf(z)), -special.ndtri(_two_modes_cdf(-z))),
        lambda z: np.logaddexp(stats.norm.logpdf(z, MODE, SPREAD), stats.norm.logpdf(z, -MODE, SPREAD)) - math.log(2),
    ),
}


@dataclass(frozen=True)
class Law:
    """A law of a number."""

    mean: Callable = lambda: 0.0
    scale: Callable = lambda *parents: 1.0
    shape: str = "normal"
    positive: bool = False

    def predict(self, u, parents):
        y = self.mean(*parents) + self.scale(*parents) * SHAPES[self.shape].outward(u)
        return np.exp(y) if self.positive else y

    def abduct(self, x, parents):
        return SHAPES[self.shape].inward(self._standard(x, parents))

    def log_prob(self, x, parents):
        found = SHAPES[self.shape].log_prob(self._standard(x, parents)) - np.log(self.scale(*parents) * np.ones_like(x))
        return found - np.log(x) if self.positive else found

    def _standard(self, x, parents):
        return ((np.log(x) if self.positive else x) - self.mean(*parents)) / self.scale(*parents)


@dataclass(frozen=True)
class Model:
    """A graph in topological order, its laws, and whether it was looked at while laws were designed."""

    graph: Mapping[str, list[str]]
    laws: Mapping[str, Law]
    seen: bool = field(default=True)

    def sample(self, rows: int, seed: int) -> dict[str, np.ndarray]:
        stream = np.random.default_rng(seed)
        return self.complete({name: stream.normal(size=rows) for name in self.graph}, {})

    def complete(self, u, x):
        """The values of a world of which every variable has its noise, or its value."""
        done = {}
        for name, parents in self.graph.items():
            given = [done[each] for each in parents]
            done[name] = x[name] if name in x else self.laws[name].predict(u[name], given)
        return done

    def abduct(self, x):
        return {name: law.abduct(x[name], [x[each] for each in self.graph[name]]) for name, law in self.laws.items()}


def _four(b, c, d, *, scales=(0.5, 0.5, 0.5), shape="normal", seen=True):
    """`a -> b; a, b -> c; b, c -> d`."""
    means, fixed = (b, c, d), [each if callable(each) else (lambda *_, each=each: each) for each in scales]
    graph = {"a": [], "b": ["a"], "c": ["a", "b"], "d": ["b", "c"]}
    laws = {name: Law(mean, scale, shape) for name, mean, scale in zip("bcd", means, fixed, strict=True)}
    return Model(graph, {"a": Law(), **laws}, seen)


def _random(seed, variables=10, seen=True):
    """A random graph with up to three causes a variable, and laws of all kinds."""
    draw = np.random.default_rng(seed)
    bends = [np.tanh, np.sin, lambda v: v, lambda v: np.abs(v) - 0.8, lambda v: 0.4 * (v**2 - 1) * np.exp(-0.1 * v**2)]
    names = [f"v{k}" for k in range(variables)]
    graph, laws = {}, {}
    for k, name in enumerate(names):
        graph[name] = (
            [str(each) for each in draw.choice(names[:k], min(k, draw.integers(1, 4)), replace=False)] if k else []
        )
        picked = [bends[draw.integers(len(bends))] for _ in graph[name]]
        slopes = draw.uniform(0.5, 1.2, len(picked)) * draw.choice([-1, 1], len(picked)) / max(1, len(picked)) ** 0.5

        def mean(*parents, picked=picked, slopes=slopes):
            return sum((s * f(p) for s, f, p in zip(slopes, picked, parents, strict=True)), 0.0)

        shape = str(draw.choice(["normal", "normal", "t3", "exponential", "two modes"])) if k else "normal"
        spread = draw.uniform(0.4, 0.8) if k else 1.0
        laws[name] = Law(mean, lambda *_, spread=spread: spread, shape)
    return Model(graph, laws, seen)


sin, tanh, exp = np.sin, np.tanh, np.exp


def _soft(a, b):
    return 0.5 * a - 0.6 * b


def _bend(b, c):
    return 0.7 * b + tanh(c)


MODELS = {
    "linear": _four(lambda a: 0.8 * a, _soft, lambda b, c: 0.7 * b + c),
    "waves": _four(
        lambda a: sin(3 * a), lambda a, b: sin(2 * a) + b / 2, lambda b, c: sin(2 * b) + c / 2, scales=(0.3, 0.3, 0.3)
    ),
    "products": _four(lambda a: 0.7 * a, lambda a, b: a * b, lambda b, c: 0.5 * b * c + 0.3 * c),
    "sigmoids": _four(
        lambda a: 2 * tanh(2 * a), lambda a, b: 1.5 * tanh(a - b), lambda b, c: 2 * tanh(b) - tanh(2 * c)
    ),
    "cubic": _four(lambda a: a**3 / 3, lambda a, b: 0.3 * a**2 + b / 2, lambda b, c: 0.3 * tanh(b) ** 3 - c / 2),
    "kinks": _four(abs, np.maximum, lambda b, c: np.maximum(0, b - c)),
    "heteroscedastic": _four(
        lambda a: a,
        lambda a, b: (a + b) / 2,
        lambda b, c: 0.6 * b - 0.4 * c,
        scales=(
            lambda a: 0.2 + 0.5 * np.log1p(exp(a)),
            lambda a, b: 0.3 * exp(tanh(b) / 2),
            lambda b, c: 0.2 + 0.4 * abs(tanh(c)),
        ),
    ),
    "two modes": _four(lambda a: 0.8 * a, _soft, _bend, shape="two modes"),
    "heavy tails": _four(lambda a: 0.8 * a, _soft, _bend, shape="t3"),
    "exponential": _four(lambda a: 0.8 * a, _soft, _bend, shape="exponential"),
    "uniform": _four(lambda a: a + 0.3 * a**2, _soft, _bend, shape="uniform"),
    "diamond": Model(
        {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]},
        {
            "a": Law(shape="t3"),
            "b": Law(lambda a: 0.7 * abs(a), lambda *_: 0.5, "t3"),
            "c": Law(lambda a: np.maximum(a, 0), lambda *_: 0.4),
            "d": Law(lambda b, c: b - c / 2 + 0.3 * tanh(b * c), lambda *_: 0.5),
        },
    ),
    "positive": Model(
        {"a": [], "b": ["a"], "c": ["a", "b"]},
        {
            "a": Law(positive=True),
            "b": Law(lambda a: 0.7 * np.log(a) + 0.2 * sin(a), lambda *_: 0.4, positive=True),
            "c": Law(lambda a, b: np.log(a) / 2 - 0.3 * np.log(b), lambda *_: 0.5, positive=True),
        },
    ),
    "chain": _four(lambda a: tanh(2 * a), lambda a, b: 1.2 * tanh(b), lambda b, c: sin(1.5 * c), seen=False),
    "ridge": _four(
        lambda a: a / 2,
        lambda a, b: tanh(2 * (a + b)),
        lambda b, c: exp(-((b - c) ** 2)),
        scales=(0.6, 0.4, 0.3),
        seen=False,
    ),
    "skewed products": _four(
        lambda a: 0.6 * a, lambda a, b: 0.6 * a * b + b / 3, lambda b, c: b / 2 + c / 2, shape="exponential", seen=False
    ),
    "ten variables": _random(1, seen=False),
    "ten others": _random(2, seen=False),
    "fifteen variables": _random(3, 15, seen=False),
}
