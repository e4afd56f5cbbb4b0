"""Models of Morpho-MNIST, and of the drawn digits that share its equations: thickness, intensity and the image."""

__all__ = ["GRAPH", "REVERSED", "model", "training", "truth"]

from collections.abc import Mapping
from dataclasses import replace

from deepbc._validation import check_choice, check_graph
from deepbc.datasets import morphomnist
from deepbc.graph import CausalGraph
from deepbc.mechanisms import ConvVAE, Flow, Mechanism
from deepbc.scm.model import SCM
from deepbc.training.trainer import Training

GRAPH = CausalGraph.parse("thickness -> intensity; thickness, intensity -> image")
# The wrong graph, of which the paper shows what it does to answers.
REVERSED = CausalGraph.parse("intensity -> thickness; thickness, intensity -> image")

PRESETS = ("default", "paper")
BOUNDS = {"intensity": (64.0, 255.0)}
# The paper's flows from the noise outward (appendix B.3.2); the sigmoid of intensity is that of its bounds. Their only
# network has a single hidden unit.
CAUSE, EFFECT, UNITS = (*["spline"] * 5, "affine"), ("affine", *["spline"] * 3), (1,)


def model(graph: CausalGraph = GRAPH, *, preset: str = "default", residual: bool = False) -> SCM:
    """Creates a model that is yet to be fitted, with `fit(data, training=training(graph, preset=preset))`.

    Args:
        graph: The graph, of some or all of thickness, intensity and image; another one is a call, not a copy.
        preset: `"default"`, our mechanisms, or `"paper"`, its flows and its autoencoder.
        residual: Whether the image keeps what its decoder misses.

    Example:
        >>> model(REVERSED, preset="paper")
        SCM(intensity: Flow, thickness: Flow, image: ConvVAE; not fitted)
    """
    check_graph(graph, CausalGraph)
    paper = check_choice(preset, PRESETS, "preset") == "paper"
    mechanisms: dict[str, Mechanism] = {}
    for name in graph:
        if name == "image":
            mechanisms[name] = ConvVAE(preset=preset, residual=residual)
        elif paper:
            layers = EFFECT if graph.parents(name) else CAUSE
            mechanisms[name] = Flow(layers=layers, hidden=UNITS, correction=False)

    return SCM(graph, mechanisms, bounds={name: pair for name, pair in BOUNDS.items() if name in graph})


def training(graph: CausalGraph = GRAPH, *, preset: str = "default") -> Mapping[str, Training]:
    """Returns how the variables are trained: as their mechanisms do, or by the paper's table (appendix B.3.1).

    The paper's autoencoder learns at a rate of 1e-6, at which it would need days; here the rate is 1e-3. The arguments
    are those of `model`.
    """
    check_graph(graph, CausalGraph)
    if check_choice(preset, PRESETS, "preset") == "default":
        return {}

    flow = Training(epochs=1000, batch=64, learning_rate=1e-3, patience=2, average=1, pull=0.0, validation=0.2)
    image = replace(flow, batch=128, patience=10, clip=1e4)

    return {name: image if name == "image" else flow for name in graph}


def truth() -> SCM:
    """Creates the model of thickness and intensity whose laws are the equations that generated the data.

    Example:
        >>> world = truth().sample(3, seed=0)
        >>> world.values["thickness"].shape
        torch.Size([3])
    """
    return SCM(morphomnist.GRAPH, morphomnist.laws())
