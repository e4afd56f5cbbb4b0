"""Figures. The one door to matplotlib, which is an extra and is loaded on first use."""

__all__ = [
    "Bars",
    "Boxes",
    "Cells",
    "CheckDrawing",
    "Drawing",
    "Figure",
    "Lines",
    "Panel",
    "Pictures",
    "Scatter",
    "check_plots",
    "plot_check",
    "plot_counterfactual",
    "plot_fit",
    "plot_graph",
    "plot_panels",
    "plot_samples",
]

from deepbc.plots.answers import Drawing, plot_counterfactual, plot_fit, plot_samples
from deepbc.plots.causal_graph import plot_graph
from deepbc.plots.check_report import CheckDrawing, plot_check
from deepbc.plots.panels import Bars, Boxes, Cells, Lines, Panel, Pictures, Scatter, plot_panels
from deepbc.plots.style import Figure, check_plots
