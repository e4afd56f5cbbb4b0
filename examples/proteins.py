"""Eleven proteins of a signalling network, skewed and positive, with many values at the floor: who carried a change?

The graph has 19 edges. One cell has much of the protein p44/42. Had it had an ordinary amount, with every law kept,
what would have been different? The question is put to two models:

- all laws linear in the logarithms, which bounds at 0 bring about: fitted in a moment, and the report says where noise
  is not normal and where rows share a value;
- the same with a flow for the protein that is asked about, fitted to a few hundred cells: it predicts all the other
  cells better.

The answers differ, and that is the lesson: what carried a change is as good as the laws, so look at the fit first.
Flows for all eleven take minutes: `bc.SCM(graph, bounds=...)` and `fit`.

Needs sachs.csv and sachs.gml (see `deepbc.datasets.tables`); without them, the example says so and ends.
"""

import deepbc as bc
from deepbc.datasets import tables

ASKED = "p44/42"
CELLS = 500


def linear_model(graph, cells):
    """Each protein by a linear law of its causes, all in logarithms."""
    scm = bc.SCM(graph, {name: bc.Linear() for name in graph}, bounds=dict.fromkeys(graph, (0, None)))
    scm.fit(cells, seed=0)

    return scm


def with_flow(scm, few):
    """The same model with another law for the protein that is asked about; the other laws are shared."""
    other = scm.replace(ASKED, bc.Flow(correction=False))
    other.fit(few, seed=0, only=[ASKED])

    return other


def rich_cell(cells):
    """The first cell among the hundredth that has most."""
    return cells[cells[ASKED] > cells[ASKED].quantile(0.99)].iloc[0]


def report(cf):
    """Prints what would have been different, and who carried how much of it; causes first."""
    print(f"{'protein':10s} {'as it was':>10s} {'would have':>11s} {'share':>7s}")
    for name in cf.graph.order:
        before, after, share = cf.factual.values[name], cf.values[name], cf.moved[name] / cf.distance
        print(f"{name:10s} {float(before):10.1f} {float(after):11.1f} {float(share):7.1%}")
    print(f"{cf.status}, distance {float(cf.distance):.2f}")


def main():
    """Fits both models, asks both, prints."""
    try:
        cells, graph = tables.proteins(), tables.protein_graph()
    except bc.DataError as missing:
        print(missing)
        return

    scm = linear_model(graph, cells)
    for each in scm.report:
        print(f"{each.name:10s} held-out nll {each.nll:.2f}  {'; '.join(each.notes)[:70]}")

    few = cells.sample(CELLS, random_state=0)
    other, rest = with_flow(scm, few), cells.drop(few.index)
    cell, ordinary = rich_cell(cells), float(cells[ASKED].median())
    for title, model in (("linear laws", scm), (f"a flow for {ASKED}", other)):
        nll = -float(model.log_prob(rest, of=[ASKED]).mean())
        print(
            f"\nHad {ASKED} been {ordinary:g} instead of {cell[ASKED]:g}; {title} (nll on the other cells {nll:.2f}):"
        )
        report(bc.backtrack(model, cell, {ASKED: ordinary}))


if __name__ == "__main__":
    main()
