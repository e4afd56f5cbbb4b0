import torch

from deepbc.numerics.seeding import generator
from deepbc.training.adam import Adam


def nets():
    made = []
    for _ in range(2):
        net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()
        with torch.no_grad():
            for i, weight in enumerate(net.parameters()):
                weight.copy_(torch.randn(weight.shape, generator=generator(i), dtype=torch.float64))
        made.append(net)
    return made


def test_steps_are_those_of_torch():
    ours, theirs = nets()
    x = torch.randn(64, 3, generator=generator(9), dtype=torch.float64)
    y = torch.randn(64, 1, generator=generator(10), dtype=torch.float64)
    adam, reference = Adam(ours, 0.05), torch.optim.Adam(theirs.parameters(), 0.05)

    for _ in range(50):
        (ours(x) - y).square().mean().backward()
        adam.clip(0.7)
        adam.step()
        reference.zero_grad()
        (theirs(x) - y).square().mean().backward()
        torch.nn.utils.clip_grad_norm_(theirs.parameters(), 0.7)
        reference.step()

    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(a, b, rtol=0, atol=1e-10)


def test_pull_leads_back_to_the_start():
    net, _ = nets()
    adam = Adam(net, 0.1, pull=1.0)
    start = adam.weights.clone()
    adam.weights.add_(1.0)
    for _ in range(200):
        adam.step()
    assert torch.allclose(adam.weights, start, rtol=0, atol=1e-6)


def test_average_is_exponential_after_a_plain_start():
    net, _ = nets()
    adam = Adam(net, 0.1, horizon=4)
    seen, expected = [], None
    for step in range(1, 20):
        adam.gradient.copy_(torch.randn(adam.gradient.shape, generator=generator(step), dtype=torch.float64))
        adam.step()
        seen.append(adam.weights.clone())
        share = max(1 / 4, 1 / step)
        expected = seen[-1] if expected is None else expected + share * (seen[-1] - expected)
    assert torch.allclose(adam.average, expected)
    weights = adam.weights.clone()
    with adam.averaged():
        assert torch.equal(next(net.parameters()).reshape(-1), adam.average[:24])
    assert torch.equal(adam.weights, weights)
