"""Models of Morpho-MNIST's thickness and intensity."""

__all__ = ["truth"]

from deepbc.datasets import morphomnist
from deepbc.scm import SCM


def truth() -> SCM:
    """Creates the model whose laws are the equations that generated the data; it needs no fit.

    Example:
        >>> world = truth().sample(3, seed=0)
        >>> world.values["thickness"].shape
        torch.Size([3])
    """
    return SCM(morphomnist.GRAPH, morphomnist.laws())
