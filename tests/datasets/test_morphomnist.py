import numpy as np
import pytest
import torch
from scipy import stats

from deepbc.datasets.morphomnist import abduct_thickness, predict_thickness
from deepbc.recipes import morphomnist


def test_thickness_is_the_gamma_quantile_of_its_noise_far_out():
    u = np.linspace(-10, 10, 401)
    gamma = stats.gamma(10, loc=0.5, scale=0.2)
    expected = np.where(u < 0, gamma.ppf(stats.norm.cdf(u)), gamma.isf(stats.norm.sf(u)))
    t = predict_thickness(torch.tensor(u)[:, None], {})[:, 0]
    assert np.allclose(t, expected, rtol=1e-11, atol=0)
    assert np.allclose(abduct_thickness(t[:, None], {})[:, 0], u, rtol=0, atol=1e-10)


def test_derivatives_of_the_quantile_pass_gradcheck():
    u = torch.linspace(-4, 4, 9, dtype=torch.float64)[:, None].requires_grad_()
    t = predict_thickness(u, {}).detach().requires_grad_()
    for function, point in ((predict_thickness, u), (abduct_thickness, t)):
        assert torch.autograd.gradcheck(lambda x, f=function: f(x, {}), point)
        assert torch.autograd.gradgradcheck(lambda x, f=function: f(x, {}), point)


def test_thickness_below_the_support_has_no_noise():
    assert abduct_thickness(torch.tensor([[0.4]], dtype=torch.float64), {}).isnan().all()


def test_real_rows_follow_the_equations(morphomnist_tables):
    _, test = morphomnist_tables
    scm = morphomnist.truth()
    for name, nll in (("thickness", 0.9268), ("intensity", 4.1955)):
        assert -scm.log_prob(test, of=[name]).mean().item() == pytest.approx(nll, abs=1e-4)
    for noise in scm.abduct(test).values():
        assert stats.kstest(noise.numpy(), "norm").pvalue > 0.1
