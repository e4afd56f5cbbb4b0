"""Fits to real tables, against what is known of them. They run where DEEPBC_DATA is set, as in CI."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from arviz_stats.base import array_stats
from scipy import stats

import deepbc as bc
from deepbc.recipes import morphomnist

TRUE_NLL = {"thickness": 0.9268, "intensity": 4.1955}


@pytest.mark.slow(minutes=2)
@pytest.mark.parametrize("bounds", [{"intensity": (64, 255)}, {}], ids=["bounds", "no bounds"])
def test_flows_of_morphomnist_come_near_the_true_equations(morphomnist_tables, bounds):
    train, test = morphomnist_tables
    scm = bc.SCM(bc.CausalGraph.parse("thickness -> intensity"), bounds=bounds)

    scm.fit(train, seed=0)

    for name, nll in TRUE_NLL.items():
        assert -scm.log_prob(test, of=[name]).mean().item() - nll < 0.004, name
    noise = scm.abduct(test)
    for name, u in noise.items():
        assert stats.kstest(u.numpy(), "norm").statistic < 0.02, name
    assert abs(np.corrcoef(noise["thickness"], noise["intensity"])[0, 1]) < 0.04
    again = scm.predict(noise)
    for name in TRUE_NLL:
        assert np.allclose(again[name], test[name], rtol=1e-9, atol=0)
    assert torch.isfinite(scm.log_prob(scm.sample(10_000, seed=0).values)).all()
    check_modes(scm, test, 0.01 if bounds else 0.02)
    check_samples(scm, test)


def check_modes(scm, test, largest_difference):
    """Asks every test row for the intensity of another one, and compares with a grid and with the true equations."""
    asked = {"intensity": test["intensity"].to_numpy()[np.random.default_rng(0).permutation(len(test))]}

    cf = bc.backtrack(scm, test, asked)

    assert (cf.status == "converged").all()
    assert cf.error.max() < 1e-6
    best = torch.cat([grid_minimum(scm, test, asked["intensity"], slice(k, k + 50)) for k in range(0, 1000, 50)])
    assert (cf.distance[:1000] > best + 1e-3).sum() <= 1
    true = bc.backtrack(morphomnist.truth(), test, asked)
    assert (cf.values["thickness"] - true.values["thickness"]).abs().mean() < largest_difference
    # The paper's own algorithm misses rows, and says which.
    linear = bc.backtrack(scm, test, asked, solver=bc.Linearized())
    missed = linear.error > 1e-2
    assert missed.any()
    assert (linear.status[missed.numpy()] == "not converged").all()


def check_samples(scm, test):
    """Draws 400 samples of 200 queries, and compares with quadrature; the paper's own are too narrow, and say so."""
    rows, others = (np.random.default_rng(seed).permutation(len(test))[:200] for seed in (1, 2))
    factual, asked = test.iloc[rows], {"intensity": test["intensity"].to_numpy()[others]}
    grid, below, sd = quadrature(scm, factual, asked["intensity"])

    cf = bc.backtrack_samples(scm, factual, asked, samples=400, seed=0)

    assert (cf.status == "converged").all()
    assert cf.error.max() < 1e-6
    u = cf.noise["thickness"].numpy()
    sizes = [array_stats.ess(u[:, k].reshape(4, 100), chain_axis=0, draw_axis=1) for k in range(200)]
    # Of 200 sets of 400 independent draws, too, the least has an effective size of 120 to 330.
    assert np.mean(sizes) >= 320
    assert np.quantile(sizes, 0.05) >= 300
    rejected = [stats.kstest(u[:, k], lambda q, k=k: np.interp(q, grid, below[k])).pvalue < 0.05 for k in range(200)]
    assert np.mean(rejected) <= 0.08
    assert (u.std(0) / sd).mean() == pytest.approx(1, abs=0.02)

    few = {name: each[:20] for name, each in asked.items()}
    rough = bc.backtrack_samples(scm, factual.iloc[:20], few, samples=40, seed=0, sampler=bc.Langevin())
    assert (rough.status == "not converged").all()
    assert (rough.noise["thickness"].std(0).numpy() / sd[:20]).mean() < 0.35


@torch.no_grad()
def quadrature(scm, factual, intensity):
    """The density of the noise of thickness: a grid, the chance to lie below each point, and standard deviations."""
    u = scm.abduct(factual)
    grid = torch.linspace(-8, 8, 4001, dtype=torch.float64)
    t = scm.mechanisms["thickness"].predict(grid[:, None], grid[:, None][:, :0]).repeat(len(factual), 1)
    x = torch.tensor(intensity).repeat_interleave(len(grid))[:, None]
    law = scm.mechanisms["intensity"]
    shape = len(factual), len(grid)
    cost = (grid - u["thickness"][:, None]).square()
    cost = cost + (law.abduct(x, t).reshape(shape) - u["intensity"][:, None]).square()
    density = torch.softmax(law.log_volume(x, t).reshape(shape) - cost, dim=-1)
    mean = (density * grid).sum(-1, keepdim=True)
    sd = (density * (grid - mean).square()).sum(-1).sqrt()

    return grid.numpy(), (density.cumsum(-1) - density / 2).numpy(), sd.numpy()


@torch.no_grad()
def grid_minimum(scm, test, intensity, rows):
    """The least distance over 4,000 noises of thickness, for some of the rows."""
    u = scm.abduct(test.iloc[rows])
    grid = torch.linspace(-6, 6, 4000, dtype=torch.float64)
    wanted = torch.tensor(intensity[rows])[:, None].expand(-1, 4000)
    t = scm.mechanisms["thickness"].predict(grid[:, None], grid[:, None][:, :0]).squeeze(-1)
    implied = scm.mechanisms["intensity"].abduct(wanted[..., None], t.expand_as(wanted)[..., None]).squeeze(-1)
    cost = (grid - u["thickness"][:, None]).square() + (implied - u["intensity"][:, None]).square()

    return cost.min(-1).values


def score_of_the_proteins(tables: Path, seed: int) -> float:
    """Fits a seeded split of the proteins and returns the negative log-likelihood of its test part."""
    torch.set_num_threads(1)
    data = pd.read_csv(tables / "sachs.csv")
    logs = np.log(data[(data > 1.05).all(axis=1)])
    graph = bc.CausalGraph.from_networkx(nx.read_gml(tables / "sachs.gml"))
    assert len(graph.edges) == 19

    order = np.random.default_rng(seed).permutation(len(logs))
    parts = np.split(order, [int(0.7 * len(logs)), int(0.85 * len(logs))])
    train, valid, test = (logs.iloc[part] for part in parts)
    mean, sd = train.mean(), train.std(ddof=0)
    scm = bc.SCM(graph, {name: bc.Flow() for name in graph})
    # The fit splits off the rows on which it stops, so it gets both parts.
    scm.fit((pd.concat([train, valid]) - mean) / sd, seed=seed)

    return -scm.log_prob((test - mean) / sd).mean().item()


@pytest.mark.slow(minutes=10)
def test_flows_of_the_proteins_score_well(data_folder):
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        scores = list(pool.map(score_of_the_proteins, [data_folder / "tables"] * 5, range(5)))

    assert np.mean(scores) < 9.1


@pytest.mark.slow(minutes=2)
def test_samples_of_the_skewed_proteins_converge(data_folder):
    # PIP3 -> plcg, PIP2; plcg -> PIP2; plcg, PIP2 -> PKC; PKC, PKA -> P38: in raw units, many at their floor.
    data = pd.read_csv(data_folder / "tables" / "sachs.csv")
    whole = nx.read_gml(data_folder / "tables" / "sachs.gml")
    names = ["PIP3", "plcg", "PIP2", "PKC", "PKA", "P38"]
    scm = bc.SCM(bc.CausalGraph.from_networkx(whole.subgraph(names)))
    order = np.random.default_rng(0).permutation(len(data))
    scm.fit(data[names].iloc[order[:500]], seed=0)
    factual, others = data[names].iloc[order[1000:1008]], data[names].iloc[order[1008:1016]]
    others.index = factual.index
    high, low = data.quantile(0.9), data.quantile(0.5)
    questions = [
        {"P38": others["P38"]},
        {"PIP3": others["PIP3"]},
        {"PKC": others["PKC"], "P38": others["P38"]},
        {"P38": bc.at_least(high["P38"])},
        {"plcg": bc.at_most(low["plcg"]), "PKC": others["PKC"]},
    ]

    answers = [bc.backtrack_samples(scm, factual, asked, samples=1000, seed=0) for asked in questions]

    agree = torch.cat([cf.diagnostics.r_hat for cf in answers]) < 1.02
    told = np.concatenate([np.asarray(cf.status) == "not converged" for cf in answers])
    # One of the 40, asked for an interval and a value of a censored number, does not mix; it is told.
    assert (~agree).sum() <= 1
    assert (agree.numpy() | told).all()
    assert all(cf.error.max() < 1e-6 for cf in answers)
    # arviz sees the same in the samples of a cause.
    u = answers[0].noise["PKC"].numpy()
    assert all(array_stats.rhat(u[:, k].reshape(4, 250), chain_axis=0, draw_axis=1) < 1.02 for k in range(8))


@pytest.mark.slow(minutes=1)
def test_a_detection_floor_of_the_proteins_is_learned_as_one(data_folder):
    # plcg -> PIP2; plcg, PIP2 -> PKC, of which 9 % of the cells show 1.0, what the cytometer reads of nothing.
    data = pd.read_csv(data_folder / "tables" / "sachs.csv")
    order = np.random.default_rng(0).permutation(len(data))
    few, new = data.iloc[order[:2500]], data.iloc[order[2500:5000]]
    at_floor = (new["PKC"] == 1.0).mean()
    laws, bounds = {"plcg": bc.Linear(), "PIP2": bc.Linear()}, {"plcg": (0, None), "PIP2": (0, None)}
    graph, drawn = bc.CausalGraph.parse("plcg -> PIP2; plcg, PIP2 -> PKC"), {}
    for kind, types in (("censored", {}), ("real", {"PKC": "real"})):
        scm = bc.SCM(graph, laws, bounds=bounds, types=types)
        assert scm.fit(few, progress=False)["PKC"].type == kind
        drawn[kind] = scm.sample(2500, seed=0).values["PKC"].numpy()
        if kind == "censored":
            floor = scm.log_prob(new.assign(PKC=1.0), of=["PKC"]).exp().numpy()
            assert {each.name: each.verdict for each in bc.check(scm, new).variables}["PKC"] == "accepted"

    error = np.sqrt(at_floor * (1 - at_floor) / len(new))
    assert abs(floor.mean() - at_floor) < 4 * error
    # The likelier a floor is said to be, the more rows are there.
    thirds = np.array_split(new["PKC"].to_numpy()[np.argsort(floor)] == 1.0, 3)
    assert thirds[0].mean() + 4 * error < min(thirds[1].mean(), thirds[2].mean())
    assert drawn["censored"].min() == 1.0
    assert (drawn["real"] < 1.0).mean() > 0.03
