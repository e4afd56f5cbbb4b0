"""Networks without a graph against autograd, whatever the shape of the network and the number of rows."""

import pytest
import torch

from deepbc.nn import mlp_jacobian
from deepbc.nn.mlp_jacobian import Network, derive_network, run_network

SHAPES = {
    "one input": (1, (32, 32), 2),
    "as many inputs as outputs": (2, (8,), 2),
    "more inputs than outputs": (5, (16, 16), 2),
    "more inputs than units": (9, (4, 4), 3),
    "wide, narrow, middling": (2, (7, 3, 5), 4),
    "narrow, wide, middling": (4, (3, 9, 5), 2),
    "four layers": (1, (6, 5, 4, 3), 1),
}


def network(inputs, hidden, outputs):
    stream = torch.Generator().manual_seed(0)

    def weights(*shape):
        return torch.randn(shape, generator=stream, dtype=torch.float64)

    sizes = zip((inputs, *hidden), hidden, strict=False)
    layers = [(weights(rows, columns), weights(columns)) for rows, columns in sizes]

    return Network(layers, weights(hidden[-1], outputs), weights(inputs, outputs), weights(outputs))


def by_autograd(net, seen):
    """The outputs, and their derivatives `(rows, outputs, inputs)`."""
    seen = seen.clone().requires_grad_()
    hidden = seen
    for weight, bias in net.layers:
        hidden = torch.sigmoid(hidden @ weight + bias)
    outputs = net.bias + seen @ net.linear + hidden @ net.last
    slopes = [torch.autograd.grad(column.sum(), seen, retain_graph=True)[0] for column in outputs.unbind(-1)]

    return outputs.detach(), torch.stack(slopes, dim=-2)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("rows", [0, 1, 23])
@pytest.mark.parametrize("block", [1, 40, mlp_jacobian.BLOCK])
def test_outputs_and_slopes_are_those_of_autograd(monkeypatch, shape, rows, block):
    monkeypatch.setattr(mlp_jacobian, "BLOCK", block)
    net = network(*shape)
    seen = torch.randn(rows, shape[0], generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    outputs, slopes = derive_network(net, seen)

    expected, by_inputs = by_autograd(net, seen)
    torch.testing.assert_close(outputs, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(slopes, by_inputs, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(run_network(net, seen), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("moving", [[], [0], [4, 1], [0, 2, 3], slice(1, 3)], ids=str)
def test_slopes_by_inputs_that_move_are_those_of_all(moving):
    net = network(*SHAPES["more inputs than outputs"])
    seen = torch.randn(23, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    outputs, slopes = derive_network(net, seen, moving)

    expected, by_inputs = by_autograd(net, seen)
    torch.testing.assert_close(outputs, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(slopes, by_inputs[..., moving], rtol=1e-12, atol=1e-12)


def test_results_share_no_memory_with_later_ones():
    net = network(1, (32, 32), 2)
    seen = torch.randn(50, 1, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    outputs, slopes = derive_network(net, seen)
    before = outputs.clone(), slopes.clone()

    derive_network(net, seen + 1)
    run_network(net, seen - 1)

    assert torch.equal(outputs, before[0])
    assert torch.equal(slopes, before[1])
