"""The contract test of a mechanism."""

__all__ = ["check_mechanism"]

import math
import tempfile
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deepbc.data.variables import Family, Variable, read_bounds
from deepbc.graph import CausalGraph
from deepbc.mechanisms import Atomic, Linear, Mechanism
from deepbc.mechanisms.links import Outer
from deepbc.numerics.seeding import generator
from deepbc.numerics.truncated_normal import LOG_SQRT_2PI
from deepbc.queries import backtrack
from deepbc.scm import SCM
from deepbc.testing.contract import DIFFERENCE, ROUNDING, Contract, differences, normal
from deepbc.training import Training

# Rows of the fit, and those at which the law is evaluated.
ROWS, POINTS = 400, 40
SHORT = Training(epochs=30, patience=5)
LEVELS = ("low", "middle", "high")
# Noise that leads to the ends of whole numbers, and what sums of probabilities may lack.
FAR, LEFT_OUT = 8.0, 1e-6
# The part of the rows of a censored law that shows, by its ends.
SHOWN = (0.3, 0.9)
Bounds = tuple[float | None, float | None]


def check_mechanism(
    mechanism: Mechanism,
    *,
    shape: tuple[int, ...] = (),
    parents: int = 2,
    bounds: Bounds = (None, None),
    ordered: bool = False,
    training: Training = SHORT,
) -> SCM:
    """Tests a law on rows drawn from the domain it declares: shapes, inverse, density, slopes, files, a question.

    Args:
        mechanism: The law, not fitted.
        shape: The shape of one value.
        parents: The dimension of the one parent, `p`; 0 for none.
        bounds: The bounds of the value.
        ordered: Whether the levels of a category have an order.
        training: How to train it.

    Returns:
        The fitted model of `p` and `x`, for tests of your own.

    Raises:
        AssertionError: A part of the contract is broken; it says which.
    """
    contract = Contract(mechanism)
    again = repr(type(mechanism)(**mechanism.settings()))
    contract.holds("settings", again == repr(mechanism), "the same law again", again, "Return all arguments.")
    data = _draw_rows(mechanism, shape, parents, bounds)
    laws = {"p": Linear(), "x": mechanism} if parents else {"x": mechanism}
    graph = CausalGraph({"p": [], "x": ["p"]} if parents else {"x": []})
    scm = SCM(
        graph, laws, bounds={} if bounds == (None, None) else {"x": bounds}, types={"x": LEVELS} if ordered else {}
    )
    scm.fit(data, training={"x": training}, progress=False)

    law = scm.mechanisms["x"]
    u, p = normal(POINTS, law.noise_dim), normal(POINTS, law.parents_dim, "parents")
    _check_shapes(contract, law)
    _check_inverse(contract, law, u, p)
    _check_density(contract, law, u, p)
    _check_slopes(contract, law, u, p)
    _check_files(contract, scm, u, p)
    _check_question(contract, scm, data)

    return scm


def _draw_rows(law: Mechanism, shape: tuple[int, ...], parents: int, bounds: Bounds) -> dict[str, Any]:
    """Rows of a skewed law that depends on the parents, in the domain of a law; one that is given draws its own."""
    p, (low, high) = normal(ROWS, parents, "p"), read_bounds(bounds, "bounds")
    if law.given:
        given = law.bind(Family(Variable("x", shape), (Variable("p", (parents,)),) if parents else ()), generator(0))
        x = given.predict(normal(ROWS, given.noise_dim, "x"), p)
    else:
        x = (0.5 * normal(ROWS, math.prod(shape), "x").cumsum(-1)).exp()
        x = x + p.sum(-1, keepdim=True) + 0.2 * p.square().sum(-1, keepdim=True)
        x = x.round().clamp(low, high) if law.discrete else Outer(Variable("x", shape, low, high)).outward(x)
        x = x.clamp(*x.quantile(x.new_tensor(SHOWN))) if law.domain == "censored" else x
    column = x.reshape(ROWS, *shape)
    if law.domain == "category":
        column = np.array(LEVELS, dtype=object)[column.long().clamp(0, 2)]

    return {**({"p": p} if parents else {}), "x": column.long() if law.domain == "integer" else column}


def _check_shapes(contract: Contract, law: Mechanism) -> None:
    for batch in ((), (5,), (2, 3), (0,)):
        u, p = (torch.zeros(*batch, dim, dtype=torch.float64) for dim in (law.noise_dim, law.parents_dim))
        x = law.predict(u, p)
        shapes = {"predict": (x, law.value_dim), "abduct": (law.abduct(x, p), law.noise_dim)}
        shapes |= {"nearest": (law.nearest(x, p, u), law.noise_dim), "draw": (law.draw(x, p, u + 0.5), law.noise_dim)}
        for name, (came, dim) in shapes.items():
            contract.shape(f"{name} of a batch {batch}", came, (*batch, dim), "Batch axes come first.")
        numbers = {"clipped": law.clipped(u, p), **({"log_prob": law.log_prob(x, p)} if law.has_density else {})}
        for name, came in numbers.items():
            contract.shape(f"{name} of a batch {batch}", came, batch, "It is one number a row.")


def _check_inverse(contract: Contract, law: Mechanism, u: Tensor, p: Tensor) -> None:
    """Each noise that is found for a value leads back to it; where one noise alone does, it is found."""
    x = law.predict(u, p)
    noise = {
        "abduct": law.abduct(x, p),
        "nearest": law.nearest(x, p, -u),
        "draw": law.draw(x, p, normal(*u.shape).sigmoid()),
    }
    for name, found in noise.items():
        again = law.predict(found, p)
        contract.holds(f"predict of {name}", again.isfinite(), "finite values", again, "Mind the ends of the range.")
        if law.exact:
            contract.near(f"predict of {name}", again, x, ROUNDING, "Mend the inverse, or set `exact` to False.")
    inside = _is_inside(law, x)
    if law.has_atoms:
        stays = law.nearest(x, p, u)[~inside]
        contract.near("nearest", stays, u[~inside], 0.0, "A noise that leads to the value stays.")
    if law.pinnable and not law.discrete:
        contract.near("abduct of predict", noise["abduct"][inside], u[inside], ROUNDING, "Mend the inverse.")


def _check_density(contract: Contract, law: Mechanism, u: Tensor, p: Tensor) -> None:
    """The density is that of a change of variables, by autograd; probabilities of discrete values add to 1."""
    if law.discrete:
        for parents in p[:5]:
            total = law.log_prob(_all_values(law, parents), parents).exp().sum()
            contract.near("probability of all values", total, 1.0, LEFT_OUT, "The regions fill the noise.")
    elif law.has_density and law.noise_dim:
        x = law.predict(u, p)
        inside = _is_inside(law, x)
        x, u, p = x[inside], u[inside], p[inside]
        jacobians = [
            torch.autograd.functional.jacobian(lambda z, k=k: law.abduct(z, p[k]), x[k]) for k in range(len(x))
        ]
        volume = torch.linalg.slogdet(torch.stack(jacobians)).logabsdet
        contract.near("log_volume", law.log_volume(x, p), volume, ROUNDING, "It is log |det du / dx|.")
        density = volume - (0.5 * u.square() + LOG_SQRT_2PI).sum(-1)
        contract.near(
            "log_prob", law.log_prob(x, p), density, ROUNDING, "It is that of values in the data's own units."
        )


def _is_inside(law: Mechanism, x: Tensor) -> Tensor:
    """The values to which one noise alone leads, with shape `(*batch,)`."""
    if law.discrete:
        return torch.zeros_like(x[..., 0], dtype=torch.bool)
    variable = law.bound.child

    return ((x > variable.floor) & (x < variable.ceiling)).all(-1)


def _all_values(law: Mechanism, parents: Tensor) -> Tensor:
    levels = law.bound.child.levels
    if levels:
        return levels.rows(torch.arange(len(levels)))
    low, high = (int(law.predict(torch.tensor([end], dtype=torch.float64), parents)) for end in (-FAR, FAR))

    return torch.arange(low, high + 1, dtype=torch.float64).unsqueeze(-1)


def _check_slopes(contract: Contract, law: Mechanism, u: Tensor, p: Tensor) -> None:
    """Derivatives by the parents are those of differences, also those that a law knows itself."""
    smooth, remedy = law.softened() if isinstance(law, Atomic) else law, "Compute with torch, and detach nothing."
    point = p.clone().requires_grad_()
    x = smooth.predict(u, point)
    slope = torch.autograd.grad(x.sum(), point, materialize_grads=True)[0] if x.requires_grad else torch.zeros_like(p)
    if law.precision is not None:
        reached = slope.isfinite().all() & (slope != 0).any() | (p.numel() == 0)
        contract.holds("slopes by the parents", reached, "finite numbers, not all 0", slope, remedy)
        return
    expected = differences(lambda p: smooth.predict(u, p).sum(-1), p)
    contract.near("slopes by the parents", slope, expected, DIFFERENCE, remedy)
    if law.value_dim > 1 or law.discrete:
        return
    inside = _is_inside(law, law.predict(u, p))
    x, u, p, expected = x[inside], u[inside], p[inside], expected[inside]
    value, by_noise, by_parents = law.predict_and_jacobian(u, p)
    contract.near("predict_and_jacobian", value, x.detach(), ROUNDING, "Mend it, or leave it out.")
    contract.near("predict_and_jacobian", by_parents, expected, DIFFERENCE, "Mend it, or leave it out.")
    last = list(range(p.shape[-1]))[-1:]
    _, _, by_last = law.predict_and_jacobian(u, p, last)
    contract.near("predict_and_jacobian by the last", by_last, expected[:, last], DIFFERENCE, "Take `moving`.")
    expected = differences(lambda u: law.predict(u, p).sum(-1), u)
    contract.near("predict_and_jacobian", by_noise, expected, DIFFERENCE, "Mend it, or leave it out.")
    if law.pinnable:
        found, by_parents = law.abduct_and_jacobian(law.reduce(x.detach()), p)
        contract.near("abduct_and_jacobian", found, u, ROUNDING, "Mend it, or leave it out.")
        expected = differences(lambda p: law.abduct(x.detach(), p).sum(-1), p)
        contract.near("abduct_and_jacobian", by_parents, expected, DIFFERENCE, "Mend it, or leave it out.")
        _, by_last = law.abduct_and_jacobian(law.reduce(x.detach()), p, last)
        contract.near("abduct_and_jacobian by the last", by_last, expected[:, last], DIFFERENCE, "Take `moving`.")


def _check_files(contract: Contract, scm: SCM, u: Tensor, p: Tensor) -> None:
    """A loaded model gives the same values; one with given laws, which are code, needs `law` to be saved."""
    if scm.mechanisms["x"].given:
        return
    with tempfile.TemporaryDirectory() as folder:
        scm.save(folder)
        again = SCM.load(folder).mechanisms["x"]
    remedy = "What is learned is a parameter or a buffer, made in `_build`."
    contract.near("loaded", again.predict(u, p), scm.mechanisms["x"].predict(u, p), 0.0, remedy)


def _check_question(contract: Contract, scm: SCM, data: dict[str, Any]) -> None:
    """Asked for what is, nothing moves; asked for what another row has, it is found."""
    name = "x" if scm.mechanisms["x"].exact else "p"
    factual = {each: column[:3] for each, column in data.items()}
    if name not in data:
        return
    same, other = (backtrack(scm, factual, {name: data[name][rows]}) for rows in (slice(3), slice(3, 6)))
    contract.near("backtrack to what is", same.distance, 0.0, ROUNDING, "`nearest` returns a noise that leads there.")
    for status in (*same.status, *other.status):
        contract.holds("backtrack", status == "converged", "converged", status, status.explain())
