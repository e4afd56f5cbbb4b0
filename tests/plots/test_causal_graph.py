"""Graphs drawn: causes stand to the left of effects."""

from deepbc import CausalGraph
from deepbc.plots import plot_graph


def test_every_variable_and_edge_is_drawn_from_left_to_right(tmp_path):
    graph = CausalGraph.parse("a -> b -> 'c$'; a -> 'c$'; d")
    axes = plot_graph(graph, tmp_path / "graph.png").axes[0]
    labels = {text.get_text(): text.xy for text in axes.texts if text.get_text()}
    assert set(labels) == set(graph)
    assert all(labels[cause][0] < labels[effect][0] for cause, effect in graph.edges)
    assert len([text for text in axes.texts if getattr(text, "arrow_patch", None)]) == len(graph.edges)
    assert (tmp_path / "graph.png").stat().st_size > 1000
