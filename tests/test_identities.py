"""The identities of every model (oracle O4), on random graphs with random laws."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import deepbc as bc
from deepbc.numerics.seeding import generator


def equation(dim):
    """x = tanh(sum of the parents) + cosh(it) sinh(u / 2)"""

    def place(parents):
        return sum((each.sum(-1, keepdim=True) for each in parents.values()), torch.zeros(1)).tanh()

    return bc.Equation(
        predict=lambda u, parents: place(parents) + place(parents).cosh() * (u / 2).sinh(),
        abduct=lambda x, parents: 2 * ((x - place(parents)) / place(parents).cosh()).asinh(),
        noise=dim,
        value=dim,
    )


MECHANISMS = {
    "flow": lambda dim: bc.Flow(),
    "corrected flow": lambda dim: bc.Flow(correction=True, hidden=[4]),
    "linear": lambda dim: bc.Linear(),
    "additive": lambda dim: bc.Additive(hidden=[4]),
    "equation": equation,
    "predictor": lambda dim: bc.Predictor(lambda parents: sum(each.sum(-1) for each in parents.values()).tanh()),
}
BOUNDS = [(None, None), (-3.0, None), (None, 40.0), (-2.0, 5.0)]
ROWS = 40


@st.composite
def models(draw):
    """A fitted model on a random graph of up to 8 variables: scalars and vectors, bounded or not."""
    names = [f"v{i}" for i in range(draw(st.integers(1, 8)))]
    parents = {name: [cause for cause in names[:i] if draw(st.booleans())] for i, name in enumerate(names)}
    kinds = {
        name: draw(st.sampled_from(list(MECHANISMS) if parents[name] else list(MECHANISMS)[:-1])) for name in names
    }
    bounds = {"equation": BOUNDS[:1]}
    limits = {
        name: draw(st.sampled_from(bounds.get(kinds[name], BOUNDS))) for name in names if kinds[name] != "predictor"
    }
    dims = {name: draw(st.sampled_from([1, 1, 2])) for name in limits}

    stream = generator(draw(st.integers(0, 1000)))
    data = {}
    for name in limits:
        free = torch.randn(ROWS, dims[name], generator=stream, dtype=torch.float64)
        free = free + 0.7 * sum(
            (data[p].reshape(ROWS, -1).sum(-1, keepdim=True) for p in parents[name] if p in data), 0
        )
        low, high = limits[name]
        low, high = (-1e9 if low is None else low), (1e9 if high is None else high)
        data[name] = (free.tanh() * 2.4 + 1.5).clamp(low + 0.01, high - 0.01) + 1e-3 * free.tanh()
        data[name] = data[name].squeeze(-1) if dims[name] == 1 else data[name]

    mechanisms = {name: MECHANISMS[kinds[name]](dims.get(name, 1)) for name in names}
    scm = bc.SCM(bc.CausalGraph(parents), mechanisms, bounds=limits)
    scm.fit(data, training=bc.Training(epochs=2))
    return scm


checked = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


def close(one, two, tolerance=1e-8):
    return all(((one[name] - two[name]).abs() <= tolerance * (1 + two[name].abs())).all() for name in two)


def noisy_names(scm):
    return [name for name in scm.graph if not scm.mechanisms[name].deterministic]


@checked
@given(models())
def test_values_to_noise_and_back_is_the_identity(scm):
    world = scm.sample(20, seed=0)
    by_values = scm.complete(values=world.values)
    by_noise = scm.complete(noise=by_values.noise)
    assert close(by_values.noise, world.noise, 1e-6)
    assert close(by_noise.values, world.values)
    assert close(scm.predict(scm.abduct(world.values)), world.values)
    assert torch.isfinite(scm.log_prob(world.values)).all()
    for name, (low, high) in scm.bounds.items():
        assert ((world.values[name] > low) & (world.values[name] < high)).all()


@pytest.mark.parametrize("ask", [bc.intervene, bc.backtrack])
@checked
@given(models(), st.data())
def test_antecedent_that_holds_moves_nothing(ask, scm, data):
    factual = scm.sample(10, seed=1).values
    names = data.draw(st.sets(st.sampled_from(list(scm.graph)), min_size=1))
    cf = ask(scm, factual, {name: factual[name] for name in names})
    assert close(cf.values, factual, 1e-7)
    assert cf.distance.max() < 1e-10
    assert (cf.status == "converged").all()


@checked
@given(models(), st.data())
def test_intervention_changes_its_effects_alone(scm, data):
    world = scm.sample(10, seed=2)
    other = scm.sample(10, seed=3)
    target = data.draw(st.sampled_from(noisy_names(scm)))

    cf = bc.intervene(scm, world.values, {target: other.values[target]})

    effects = scm.graph.descendants(target)
    assert torch.equal(cf.values[target], other.values[target])
    for name in scm.graph:
        if name != target:
            assert cf.moved[name].max() < 1e-10
        if name not in (*effects, target):
            assert torch.equal(cf.values[name], world.values[name])
    # The laws of the effects still hold: the noise of the answer leads to its values.
    assert close(scm.predict(cf.noise), cf.values, 1e-6)
    assert (cf.status == "converged").all()


@checked
@given(models(), st.data())
def test_backtracking_keeps_every_law_and_is_no_dearer_than_intervening(scm, data):
    world, other = scm.sample(8, seed=4), scm.sample(8, seed=5)
    targets = data.draw(st.lists(st.sampled_from(noisy_names(scm)), min_size=1, max_size=2, unique=True))
    asked = {name: other.values[name] for name in targets}

    cf = bc.backtrack(scm, world.values, asked)
    forced = bc.intervene(scm, world.values, asked)

    assert (cf.status == "converged").all()
    assert cf.error.max() < 1e-6
    assert close(scm.predict(cf.noise), cf.values, 1e-6)
    # Full scope and exact laws: the force is one of the ways to get there.
    assert (cf.distance <= forced.distance * (1 + 1e-9) + 1e-9).all()
    for name in scm.graph:
        if name not in (*targets, *scm.graph.ancestors(*targets)):
            assert torch.equal(cf.noise[name], cf.factual.noise[name])

    own = bc.backtrack(scm, world.values, asked, scope=targets)
    assert close(own.values, forced.values, 1e-6)
    assert (own.status == "converged").all()


@checked
@given(models())
def test_backtracking_on_a_root_is_intervening(scm):
    root = next(name for name in scm.graph if not scm.graph.parents(name))
    world, other = scm.sample(8, seed=7), scm.sample(8, seed=8)
    cf = bc.backtrack(scm, world.values, {root: other.values[root]})
    assert close(cf.values, bc.intervene(scm, world.values, {root: other.values[root]}).values, 1e-9)
