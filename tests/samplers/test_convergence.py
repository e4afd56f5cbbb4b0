"""R-hat and effective sizes against arviz."""

import numpy as np
import pytest
import torch
from arviz_stats.base import array_stats

from deepbc.samplers.convergence import effective_sample_size, r_hat

SHAPE = (4, 100, 20)


def chains(kind: str) -> np.ndarray:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(4, 101, 20) if kind == "odd" else SHAPE)
    if kind in ("sticky", "swinging"):
        lag = 0.9 if kind == "sticky" else -0.4
        for step in range(1, x.shape[1]):
            x[:, step] = lag * x[:, step - 1] + np.sqrt(1 - lag**2) * x[:, step]
    changes = {
        "tied": lambda: np.round(2 * x) / 2,
        "apart": lambda: x + draw.normal(size=(4, 1, 20)),
        "wide tails": lambda: draw.standard_cauchy(size=SHAPE),
        "two chains": lambda: x[:2],
        "drifting": lambda: x + np.linspace(0, 2, 100)[None, :, None],
        "other widths": lambda: x * np.array([1, 1, 1, 3])[:, None, None],
    }
    return changes.get(kind, lambda: x)()


KINDS = (
    *("plain", "sticky", "swinging", "odd", "tied", "apart", "wide tails", "two chains", "drifting", "other widths"),
)


@pytest.mark.parametrize("kind", KINDS)
def test_diagnostics_are_those_of_arviz(kind):
    x = chains(kind)
    ours = r_hat(torch.tensor(x)), effective_sample_size(torch.tensor(x))
    theirs = (
        [each(x[..., k], chain_axis=0, draw_axis=1) for k in range(x.shape[-1])]
        for each in (array_stats.rhat, array_stats.ess)
    )
    for mine, other in zip(ours, theirs, strict=True):
        assert np.allclose(mine, other, rtol=1e-10, atol=0)


def test_what_cannot_be_judged():
    same = torch.ones(4, 50, 2, dtype=torch.float64)
    assert r_hat(same).tolist() == [1, 1]
    assert effective_sample_size(same).tolist() == [200, 200]
    same[0, 3, 0] = torch.nan
    assert r_hat(same).isnan().tolist() == [True, False]
    assert effective_sample_size(same).isnan().tolist() == [True, False]
    assert effective_sample_size(torch.randn(4, 3)).isnan()
