"""Draws the figures of the page on kinds of counterfactuals: python docs/figures/make.py.

The first two are the paper's figures 2 and 3 in our own manner; the third shows the worked example of the page.
"""

from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
from diagrams import Arrow, Curve, Diagram, Dot, Node, Plane

import deepbc as bc
from deepbc.plots import Panel, plot_panels
from deepbc.recipes import morphomnist

FOLDER = Path(__file__).parent
# A chain of three variables: their subscripts and their heights.
CHAIN = {"₁": 2.0, "₂": 1.0, "₃": 0.0}
FRAME, NOWHERE = (-0.4, 4.1, -0.35, 2.8), ("", "")

# The worked example, and the ends of its axes.
DIGIT, ASKED = {"thickness": 2.5, "intensity": 159.5}, 240.0
THIN, THICK, STEPS = 1.0, 4.6, 90


def twins() -> list[Panel]:
    """The paper's figure 2: the counterfactual world beside the factual one, by force and by backtracking."""
    return [forced_twin(), traced_twin()]


def forced_twin() -> Panel:
    """Both worlds have the same noises; the law of one variable is cut off."""
    notes = {"₁": "as it was", "₂": "forced", "₃": "follows"}
    nodes = {
        **column("x", "", 0.2, "factual", given=CHAIN),
        **column("u", "", 1.6, "plain"),
        **column("x", "*", 3.0, "counterfactual", given="₂", notes=notes),
    }
    arrows = [
        *(Arrow(f"u{k}", f"x{k}") for k in CHAIN),
        *(Arrow(f"u{k}", f"x{k}*", cut=k == "₂") for k in CHAIN),
        *(Arrow(f"x{cause}", f"x{effect}") for cause, effect in ("₁₂", "₂₃")),
        *(Arrow(f"x{cause}*", f"x{effect}*", cut=effect == "₂") for cause, effect in ("₁₂", "₂₃")),
    ]
    captions = [
        ("factual", (0.2, 2.6), "factual"),
        ("noise", (1.6, 2.6), "plain"),
        ("counterfactual", (3.0, 2.6), "counterfactual"),
    ]

    return Diagram("interventional: the law of x₂ is broken", NOWHERE, nodes, arrows, ["x₂*"], captions, FRAME)


def traced_twin() -> Panel:
    """Each world has its own noises, the laws are the same, and the noises are near each other."""
    notes = {"₁": "differs", "₂": "asked", "₃": "follows"}
    nodes = {
        **column("x", "", 0.0, "factual", given=CHAIN),
        **column("u", "", 1.0, "factual"),
        **column("u", "*", 2.2, "backtracking"),
        **column("x", "*", 3.2, "counterfactual", given="₂", notes=notes),
    }
    moves = {"₁": "moves", "₂": "moves", "₃": "stays"}
    arrows = [
        *(Arrow(f"u{k}{star}", f"x{k}{star}") for k in CHAIN for star in ("", "*")),
        *(Arrow(f"x{cause}{star}", f"x{effect}{star}") for cause, effect in ("₁₂", "₂₃") for star in ("", "*")),
        *(Arrow(f"u{k}", f"u{k}*", "backtracking", note=moves[k]) for k in CHAIN),
    ]
    captions = [
        ("factual", (0.5, 2.6), "factual"),
        ("near", (1.6, 2.6), "backtracking"),
        ("counterfactual", (2.7, 2.6), "counterfactual"),
    ]

    return Diagram("backtracking: every law is kept", NOWHERE, nodes, arrows, [], captions, FRAME)


def column(
    letter: str,
    star: str,
    x: float,
    role: str,
    given: Collection[str] = (),
    notes: Mapping[str, str] | None = None,
) -> dict[str, Node]:
    """The three nodes of a letter, one below the other, by their names."""
    names = {k: f"{letter}{k}{star}" for k in CHAIN}

    return {
        name: Node(name, (x, CHAIN[k]), role, given=k in given, note=(notes or {}).get(k, ""))
        for k, name in names.items()
    }


def explanations() -> list[Panel]:
    """The paper's figure 3: the laws of the world, and the law of a prediction."""
    frame = (-1.0, 2.6, -0.8, 1.3)
    world = {
        "Z": Node("Z", (0.0, 1.0), "plain", note="age", left=True),
        "Y": Node("Y", (1.2, 1.0), "counterfactual", given=True, note="illness"),
        "X": Node("X", (0.6, 0.0), "plain", note="blood test"),
    }
    asked = question("Had she not been ill,", "what would the test have shown?")
    program = {
        "Z": Node("Z", (0.0, 1.0), "plain", note="age", left=True),
        "X": Node("X", (1.2, 1.0), "plain", note="blood test"),
        "Y": Node("Ŷ", (0.6, 0.0), "counterfactual", given=True, note="a program's verdict"),
    }
    other = question("Had the program not called her ill,", "what would the test have shown?")
    laws, law = [Arrow("Z", "Y"), Arrow("Z", "X"), Arrow("Y", "X")], [Arrow("Z", "Y"), Arrow("X", "Y")]

    return [
        Diagram("(a) the laws of the world", NOWHERE, world, laws, [], asked, frame),
        Diagram("(b) the law of a prediction", NOWHERE, program, law, [], other, frame),
    ]


def question(*lines: str) -> list[tuple[str, tuple[float, float], str]]:
    """Lines below a graph."""
    return [(line, (0.7, -0.48 - 0.14 * k), "plain") for k, line in enumerate(lines)]


def answers() -> list[Panel]:
    """The worked example: both answers among the digits, and in the plane of the noises."""
    scm = morphomnist.truth()
    traced, forced = (ask(scm, DIGIT, {"intensity": ASKED}) for ask in (bc.backtrack, bc.intervene))

    return [value_plane(scm, traced, forced), noise_plane(scm, traced, forced)]


def value_plane(scm: bc.SCM, traced: bc.Counterfactual, forced: bc.Counterfactual) -> Panel:
    """Where digits lie: shaded, 19 of 20; and the factual one with both answers."""
    t = np.linspace(THIN, THICK, STEPS)
    low, middle, high = (
        scm.complete(values={"thickness": t}, noise={"intensity": np.full(STEPS, u)}).values["intensity"].numpy()
        for u in (-1.96, 0.0, 1.96)
    )
    curves = [
        Curve(t, low, "plain", until=high),
        Curve(t, middle, "plain"),
        Curve([THIN, THICK], [ASKED, ASKED], "plain", dashed=True),
    ]
    dots = [
        Dot(*DIGIT.values(), "factual", "factual"),
        Dot(float(forced.values["thickness"]), ASKED, "interventional", "interventional", (-7, 7)),
        Dot(float(traced.values["thickness"]), ASKED, "backtracking", "backtracking", (3, -9)),
    ]
    captions = [("asked for", (1.4, ASKED - 7), "plain"), ("where digits lie", (3.75, 145), "plain")]

    return Plane("values", ("thickness", "intensity"), curves, dots, captions, (THIN, THICK, 60, 262))


def noise_plane(scm: bc.SCM, traced: bc.Counterfactual, forced: bc.Counterfactual) -> Panel:
    """The worlds in which it holds are a curve; backtracking finds its nearest point, force the one straight above."""
    t = np.linspace(THIN, THICK, STEPS)
    held = scm.complete(values={"thickness": t, "intensity": np.full(STEPS, ASKED)}).noise
    here, there, above = (
        [float(noise[name]) for name in DIGIT] for noise in (traced.factual.noise, traced.noise, forced.noise)
    )
    turn, radius = np.linspace(0, 2 * np.pi, STEPS), float(traced.distance) ** 0.5
    curves = [
        Curve(*(held[name].numpy() for name in DIGIT), "plain", dashed=True),
        Curve(here[0] + radius * np.cos(turn), here[1] + radius * np.sin(turn), "backtracking"),
    ]
    dots = [
        Dot(*here, "factual", "factual", (-7, -8)),
        Dot(*above, "interventional", f"distance {float(forced.distance):.1f}"),
        Dot(*there, "backtracking", f"distance {float(traced.distance):.1f}"),
    ]
    captions = [("asked for", (2.05, 3.2), "plain")]
    names = ("noise of thickness", "noise of intensity")

    return Plane("noises", names, curves, dots, captions, (-3.0, 5.0, -2.2, 5.8), square=True)


def make(folder: Path) -> None:
    """Writes the figures into a folder."""
    plot_panels([twins()], width=7.2, heights=[2.9], path=folder / "twins.svg")
    plot_panels([explanations()], width=7.2, heights=[2.5], path=folder / "explanations.svg")
    plot_panels([answers()], width=7.2, heights=[3.2], path=folder / "answers.svg")


if __name__ == "__main__":
    make(FOLDER)
