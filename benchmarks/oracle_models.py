"""Random models of known smooth laws, and the settings in which the oracle asks them.

Each variable is :math:`x = m(pa) + s(pa) u`. A mild law adds lines, saturating terms and parabolas; a wavy one sine
waves and products as well. The last variable `y` descends from all others. A score is a small network of some of them.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

import deepbc as bc

Columns = dict[str, Tensor]
INF = math.inf


class Law:
    """A law by its random coefficients; it acts on parents `(rows, parents)`."""

    def __init__(self, draw: np.random.Generator, parents: int, wavy: bool) -> None:
        def normal(scale: float) -> Tensor:
            return torch.from_numpy(draw.normal(size=parents) * scale / max(1.0, math.sqrt(parents)))

        self.line, self.bent, self.even = normal(0.7), normal(0.8), normal(0.25)
        self.wave, self.product = (normal(0.8), normal(0.4)) if wavy else (None, None)
        self.rate = torch.from_numpy(draw.uniform(1.5, 3.0, size=parents))
        self.phase = torch.from_numpy(draw.uniform(-3, 3, size=parents))
        self.scale = normal(0.4)

    def parts(self, pa: Tensor) -> tuple[Tensor, Tensor]:
        """The mean and the scale, with shape `(rows, 1)`."""
        mean = (
            pa * self.line + torch.tanh(1.5 * pa + self.phase) * self.bent + 3 * torch.tanh(pa.square() / 3) * self.even
        )
        if self.wave is not None:
            mean = mean + torch.sin(self.rate * pa + self.phase) * self.wave
            mean = mean + torch.tanh(pa * pa.roll(1, -1)) * self.product
        scale = torch.exp((torch.tanh(pa) * self.scale).sum(-1, keepdim=True))

        return mean.sum(-1, keepdim=True), scale

    def predict(self, u: Tensor, pa: Tensor) -> Tensor:
        mean, scale = self.parts(pa)
        return mean + scale * u

    def abduct(self, x: Tensor, pa: Tensor) -> Tensor:
        mean, scale = self.parts(pa)
        return (x - mean) / scale


class Score:
    """A network of one hidden layer, smooth or with corners."""

    def __init__(self, draw: np.random.Generator, parents: int, relu: bool) -> None:
        self.first = torch.from_numpy(draw.normal(size=(parents, 16)) / math.sqrt(parents))
        self.shift, self.last = torch.from_numpy(draw.normal(size=16)), torch.from_numpy(draw.normal(size=(16, 1)) / 3)
        self.bend = torch.relu if relu else torch.tanh

    def predict(self, u: Tensor, pa: Tensor) -> Tensor:
        return self.bend(pa @ self.first + self.shift) @ self.last


@dataclass(frozen=True)
class Model:
    """A graph with laws, by name in topological order."""

    parents: Mapping[str, tuple[str, ...]]
    laws: Mapping[str, Law | Score]

    def predict(self, noise: Mapping[str, Tensor]) -> Columns:
        x: Columns = {}
        for name, law in self.laws.items():
            x[name] = law.predict(noise.get(name), self.joined(name, x, noise))
        return x

    def joined(self, name: str, x: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> Tensor:
        parts = [x[each] for each in self.parents[name]]
        rows = len(next(iter(like.values())))
        return torch.cat(parts, -1) if parts else torch.zeros(rows, 0, dtype=torch.float64)

    def scm(self) -> bc.SCM:
        def split(
            name: str, method: Callable[[Tensor, Tensor], Tensor]
        ) -> Callable[[Tensor, Mapping[str, Tensor]], Tensor]:
            def function(given: Tensor, parents: Mapping[str, Tensor]) -> Tensor:
                joined = [parents[each] for each in self.parents[name]]
                return method(given, torch.cat(joined, -1) if joined else given[:, :0])

            return function

        made: dict[str, bc.Mechanism] = {}
        for name, law in self.laws.items():
            predict = split(name, law.predict)
            if isinstance(law, Score):
                chosen, score = self.parents[name], law
                made[name] = bc.Predictor(
                    lambda p, s=score, c=chosen: s.predict(p[c[0]], torch.cat([p[n] for n in c], -1))
                )
            else:
                made[name] = bc.Equation(predict=predict, abduct=split(name, law.abduct))
        return bc.SCM(bc.CausalGraph({name: list(each) for name, each in self.parents.items()}), made)


def draw_model(seed: int, causes: int, *, wavy: bool, score: str = "") -> Model:
    """Draws a model of so many causes of `y`; a score `"smooth"` or `"relu"` of it and some causes goes with it."""
    draw = np.random.default_rng([seed, causes, wavy])
    names = [f"v{k}" for k in range(causes)]
    parents: dict[str, tuple[str, ...]] = {}
    for k, name in enumerate(names):
        count = int(draw.integers(0, min(k, 3) + 1))
        parents[name] = tuple(str(each) for each in draw.choice(names[:k], size=count, replace=False)) if count else ()
    sinks = [name for name in names if not any(name in each for each in parents.values())]
    parents["y"] = tuple(dict.fromkeys([*sinks, names[int(draw.integers(0, causes))]]))
    laws: dict[str, Law | Score] = {name: Law(draw, len(each), wavy) for name, each in parents.items()}
    if score:
        parents["score"] = tuple(dict.fromkeys([names[0], names[-1], "y"]))
        laws["score"] = Score(draw, len(parents["score"]), score == "relu")
    return Model(parents, laws)


@dataclass(frozen=True)
class Question:
    """A question of a batch of rows, in plain terms: bounds by variable, scope, weights, and the power of each cost."""

    noise: Columns
    lower: Columns
    upper: Columns
    scope: tuple[str, ...]
    weights: Mapping[str, float]
    powers: Mapping[str, float]

    def ask(
        self, scm: bc.SCM, model: Model, solver: bc.Solver, rows: slice | Tensor = slice(None)
    ) -> bc.Counterfactual:
        noise = {name: each[rows] for name, each in self.noise.items()}
        x = model.predict(noise)
        asked = {}
        for name in self.lower:
            low, high = self.lower[name][rows].squeeze(-1), self.upper[name][rows].squeeze(-1)
            if (low == high).all():
                asked[name] = low
            elif high.isinf().all():
                asked[name] = bc.at_least(low)
            else:
                asked[name] = bc.at_most(high) if low.isinf().all() else bc.between(low, high)
        factual = {name: each.squeeze(-1) for name, each in x.items() if name != "score"}
        made = {1.0: bc.Absolute, 2.0: bc.Squared}
        distance = {
            name: (made[p](self._own(name)) if p in made else bc.Power(p, self._own(name)))
            for name, p in self.powers.items()
        }
        if all(p == 2 for p in self.powers.values()):
            distance = bc.Squared(dict(self.weights))
        return bc.backtrack(scm, factual, asked, scope=list(self.scope), distance=distance, solver=solver)

    def _own(self, name: str) -> dict[str, float]:
        return {name: self.weights[name]} if name in self.weights else {}


SETTINGS = (
    "one leaf",
    "several values",
    "one interval",
    "two intervals",
    "intervals and a value",
    "causes alone, value",
    "causes alone, interval",
    "half of the scope",
    "weights 0 and 1e6",
    "Power(4)",
    "Absolute",
    "mixed distances",
    "smooth score, value",
    "smooth score, interval",
    "ReLU score, value",
    "ReLU score, interval",
)


def score_of(setting: str) -> str:
    """Which score a setting asks about, if it does."""
    return "relu" if setting.startswith("ReLU") else "smooth" if setting.startswith("smooth") else ""


def draw_question(model: Model, setting: str, seed: int, rows: int) -> Question:
    """Draws rows and what is asked of them, in reach of the noises in scope."""
    draw = np.random.default_rng([seed, SETTINGS.index(setting), 1])

    def normal() -> Columns:
        named = [name for name, law in model.laws.items() if isinstance(law, Law)]
        return {name: torch.from_numpy(draw.normal(size=(rows, 1))) for name in named}

    noise, other = normal(), normal()
    names = tuple(noise)
    causes = tuple(name for name in names if name != "y")
    # Another variable that is asked about beside y: one with parents where there is one.
    inner = [name for name in causes if model.parents[name]] or list(causes)
    beside = str(draw.choice(inner))
    third = str(draw.choice(causes))
    scope, weights, powers = names, {}, dict.fromkeys(names, 2.0)
    if setting.startswith("causes alone"):
        scope = causes
    elif setting == "half of the scope":
        scope = tuple(name for name in names if draw.uniform() < 0.5) or ("y",)
    elif setting == "weights 0 and 1e6":
        picked = draw.permutation(names)[:2]
        weights = {str(picked[0]): 0.0, str(picked[1]): 1e6}
    elif setting == "Power(4)":
        powers = dict.fromkeys(names, 4.0)
    elif setting == "Absolute":
        powers = dict.fromkeys(names, 1.0)
    elif setting == "mixed distances":
        powers = {name: float(draw.choice([1.0, 2.0, 4.0])) for name in names}

    # Reachable: what the noises in scope lead to when they are drawn afresh.
    reached = model.predict({name: other[name] if name in scope else noise[name] for name in names})
    target = "score" if "score" in model.laws else "y"
    exact = {name: (reached[name], reached[name]) for name in {target, beside}}
    lower, upper = {}, {}

    def ask(name: str, form: str) -> None:
        value, now = reached[name], model.predict(noise)[name]
        infinite = torch.full_like(value, INF)
        # An interval that begins at the value and points away from the factual one for half of the rows.
        side = bool(draw.uniform() < 0.5)
        lower[name], upper[name] = {
            "value": exact.get(name, (value, value)),
            "open": (value, infinite) if side else (-infinite, value),
            "closed": (value - 0.2, value + 0.2),
        }[form]
        assert now.shape == value.shape

    if setting == "several values":
        ask("y", "value"), ask(beside, "value")
    elif setting == "two intervals":
        ask("y", "closed"), ask(beside, "open")
    elif setting == "intervals and a value":
        ask("y", "value"), ask(beside, "closed")
        if third != beside:
            ask(third, "open")
    else:
        ask(target, "open" if "interval" in setting else "value")

    return Question(noise, lower, upper, scope, weights, powers)
