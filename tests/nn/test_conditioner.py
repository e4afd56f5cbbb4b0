"""Networks that turn parents into parameters."""

import numpy as np
import pytest
import torch

from deepbc.nn.conditioner import Conditioner


def by_hand(net: Conditioner, context: np.ndarray) -> np.ndarray:
    """The formula of the module, component by component."""
    weights = {name: each.detach().numpy() for name, each in net.named_parameters()}
    outputs = []
    for k, mask in enumerate(net.mask.numpy()):
        seen = hidden = context * mask
        for layer in range(len(net.layers)):
            sums = hidden @ weights[f"layers.{layer}.weight"][k] + weights[f"layers.{layer}.bias"][k]
            hidden = 1 / (1 + np.exp(-sums))
        outputs.append(weights["bias"][k] + seen @ weights["linear"][k] + hidden @ weights["last"][k])

    return np.stack(outputs, axis=-2)


@pytest.mark.parametrize("components", [1, 3])
@pytest.mark.parametrize("batch", [(), (5,), (0,), (9_000,), (2, 5_000)])
@pytest.mark.parametrize("kept", [True, False])
def test_parameters_follow_the_formula(components: int, batch: tuple[int, ...], kept: bool) -> None:
    stream = torch.Generator().manual_seed(0)
    net = Conditioner(components, 2, 4, (32, 32), stream)
    for each in net.parameters():
        each.data = torch.randn(each.shape, generator=stream, dtype=torch.float64)
    context = torch.randn(*batch, components + 1, generator=stream, dtype=torch.float64)

    # Rows pass in blocks where nothing is kept for a derivative.
    with torch.set_grad_enabled(kept):
        parameters = net(context, slice(None))

    np.testing.assert_allclose(parameters.detach().numpy(), by_hand(net, context.numpy()), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("parents", [1, 3])
@pytest.mark.parametrize("rows", [200, 16_387, 20_001])
def test_lone_parameters_are_the_same_to_the_last_digit_with_and_without_a_graph(parents: int, rows: int) -> None:
    stream = torch.Generator().manual_seed(0)
    net = Conditioner(1, parents, 2, (32, 32), stream)
    for each in net.parameters():
        each.data = torch.randn(each.shape, generator=stream, dtype=torch.float64)
    context = torch.randn(rows, parents, generator=stream, dtype=torch.float64)

    with torch.no_grad():
        plain, (sloped, _) = net(context, slice(None)), net.derive(context)
        # As laws are asked, so many rows at a time.
        parts = torch.cat([net(part, slice(None)) for part in context.split(16_384)])

    assert torch.equal(parts, plain)
    assert torch.equal(plain[:, 0], sloped)
    if rows < 16_384:
        assert torch.equal(plain, net(context, slice(None)))
