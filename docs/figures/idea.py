"""Draws the picture of the README, after the paper's figure 1, from the demo's own answer: python docs/figures/idea.py.

It runs the demo, which takes minutes.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch
from diagrams import Arrow, Diagram, Node

import deepbc as bc
from deepbc.cli.demo import Demo, run_demo
from deepbc.plots import Panel, Pictures, plot_panels

FOLDER = Path(__file__).parent
# Which of the demo's digits is shown.
DIGIT = 2
# The variables: their letters and their heights. The columns: their names and their places.
LETTERS = {"thickness": ("t", 2.0), "intensity": ("i", 1.0), "image": ("d", 0.0)}
COLUMNS = {"x": 0.0, "u": 1.2, "u*": 2.5, "x*": 3.7}
# How far the intensity stands aside, so that the arrow from thickness to image is seen.
ASIDE = {"x": -0.4, "x*": 0.4}
EDGES = (("thickness", "intensity"), ("thickness", "image"), ("intensity", "image"))


def idea(made: Demo) -> list[Panel]:
    """How the answer came about, and what it looks like."""
    traced, forced = (made.answers[kind].learned for kind in ("backtracking", "interventional"))

    return [noises(traced, made.intensity), digits(traced, forced)]


def noises(cf: bc.Counterfactual, asked: float) -> Diagram:
    """From the factual world to its noise, to the nearest noise that leads to what was asked, and back."""
    before, after = cf.factual.values, cf.values
    notes = {
        "x": {
            "thickness": f"thickness {before['thickness'][DIGIT]:.2f}",
            "intensity": f"intensity {before['intensity'][DIGIT]:.0f}",
            "image": "digit",
        },
        "x*": {"thickness": f"{after['thickness'][DIGIT]:.2f}", "intensity": f"{asked:.0f}"},
    }
    nodes = {f"{column} {name}": node(column, name, notes.get(column, {})) for column in COLUMNS for name in LETTERS}
    arrows = [
        *(Arrow(f"x {name}", f"u {name}") for name in LETTERS),
        *(Arrow(f"u {name}", f"u* {name}", "backtracking", note=move(cf, name)) for name in LETTERS),
        *(Arrow(f"u* {name}", f"x* {name}") for name in LETTERS),
        *(Arrow(f"{world} {cause}", f"{world} {effect}") for world in ("x", "x*") for cause, effect in EDGES),
    ]
    captions = [
        ("as it was", (0.0, 2.62), "factual"),
        ("the least other noise", (1.85, 2.62), "backtracking"),
        ("as it would have been", (3.8, 2.62), "counterfactual"),
        ("abduct", (0.6, -0.5), "plain"),
        ("solve", (1.85, -0.5), "plain"),
        ("predict", (3.1, -0.5), "plain"),
    ]
    title = f"had its intensity been {asked:.0f}, with every law kept"

    return Diagram(title, ("", ""), nodes, arrows, [], captions, (-1.9, 4.9, -0.65, 2.8))


def node(column: str, name: str, notes: Mapping[str, str]) -> Node:
    """A variable, or its noise, in one of the worlds."""
    letter, height = LETTERS[name]
    world = {"x": "factual", "u": "factual", "u*": "backtracking", "x*": "counterfactual"}[column]
    label = f"{letter}*" if column == "x*" else letter if column == "x" else column
    given = column == "x" or (column == "x*" and name == "intensity")

    place = COLUMNS[column] + (ASIDE.get(column, 0.0) if name == "intensity" else 0.0)

    return Node(label, (place, height), world, given, notes.get(name, ""), left=column == "x")


def move(cf: bc.Counterfactual, name: str) -> str:
    """What the noise of a variable had to pay."""
    moved = float(cf.moved[name][DIGIT])

    return f"moves {moved:.2f}" if moved > 0 else "stays"


def digits(traced: bc.Counterfactual, forced: bc.Counterfactual) -> Pictures:
    """The digit as it was, as backtracking has it, and as an intervention has it."""
    worlds = (traced.factual.values, traced.values, forced.values)
    tiles = torch.stack([values["image"][DIGIT] for values in worlds]).unsqueeze(0)
    columns = [
        f"{label}\nthickness {values['thickness'][DIGIT]:.2f}, intensity {values['intensity'][DIGIT]:.0f}"
        for label, values in zip(("factual", "backtracking", "interventional"), worlds, strict=True)
    ]

    return Pictures("the digit", ("", ""), tiles, columns)


def draw(made: Demo, folder: Path) -> None:
    """Writes the picture into a folder."""
    plot_panels([idea(made)], width=9.6, heights=[3.2], path=folder / "idea.svg")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        draw(run_demo(scratch), FOLDER)
