"""Which station carried the flood? Three rivers meet at New Jumbles Rock and flow on to Samlesbury.

Henthorn, Hodder Place, Whalley Weir -> New Jumbles Rock -> Samlesbury

The model learns from the first part of the record and is asked about the largest flood of the rest: had the flow at
Samlesbury been an ordinary one, with every law kept, what would have been different upstream?

What the data carry, and what they do not:

- Rows follow each other in time and are nearly the same, so rows drawn at random hold nothing out. The model is judged
  on rows that come later.
- Water takes time. The rows are shifted by the delay at which Samlesbury agrees best with New Jumbles Rock.
- Flows have three digits.
- Rain falls on all three rivers at once, and the graph has no rain. Their noises go together, which the model takes for
  chance: what the three carried as one is an answer, how they share it is an assumption of the distance.

Needs river.csv (see `deepbc.datasets.tables`); without it, the example says so and ends.
"""

import numpy as np
import torch

import deepbc as bc
from deepbc.datasets import tables

HEADS = ["Henthorn", "Hodder Place", "Whalley Weir"]
MEETING, END = "New Jumbles Rock", "Samlesbury"
LEARNED, LONGEST = 24_000, 40


def delay(flows):
    """The number of rows by which Samlesbury comes after New Jumbles Rock."""
    logs = np.log(flows)

    return max(range(LONGEST), key=lambda rows: logs[MEETING].corr(logs[END].shift(-rows)))


def aligned(flows):
    """Each row of the upper stations beside the Samlesbury that its water reached."""
    return flows.assign(**{END: flows[END].shift(-delay(flows))}).dropna()


def meeting(flows):
    """Flows add up where rivers meet: the weighted sum of the three, times noise, by least squares."""
    ratios = flows[HEADS].to_numpy() / flows[[MEETING]].to_numpy()
    weights, *_ = np.linalg.lstsq(ratios, np.ones(len(flows)))
    rest = -np.log(ratios @ weights)
    shift, scale = float(rest.mean()), float(rest.std())

    def log_sum(parents):
        return torch.log(sum(weight * parents[name] for weight, name in zip(weights, HEADS, strict=True))) + shift

    return bc.Equation(
        predict=lambda u, parents: torch.exp(log_sum(parents) + scale * u),
        abduct=lambda x, parents: (x.log() - log_sum(parents)) / scale,
    )


def model(flows):
    """The law of the meeting as we know it, the others linear in the logarithms, for flows are positive."""
    laws = {**{name: bc.Linear() for name in [*HEADS, END]}, MEETING: meeting(flows)}
    scm = bc.SCM(tables.RIVER_GRAPH, laws, bounds=dict.fromkeys(laws, (0, None)))
    scm.fit(flows, seed=0)

    return scm


def flood(flows):
    """The row of the highest flow at Samlesbury after the rows that were learned from."""
    return flows.loc[flows[END].iloc[LEARNED:].idxmax()]


def report(cf):
    """Prints each station before and after, and its share of the change."""
    print(f"{'station':18s} {'as it was':>10s} {'would have':>11s} {'share':>7s}")
    for name in tables.RIVER_GRAPH:
        before, after, share = cf.factual.values[name], cf.values[name], cf.moved[name] / cf.distance
        print(f"{name:18s} {float(before):10.1f} {float(after):11.1f} {float(share):7.0%}")
    together = sum(float(cf.moved[name]) for name in HEADS) / float(cf.distance)
    print(f"{cf.status}; the three rivers together carried {together:.0%}\n")


def main():
    """Fits, asks, prints."""
    try:
        flows = tables.rivers()
    except bc.DataError as missing:
        print(missing)
        return

    print(f"Samlesbury comes {delay(flows)} rows after {MEETING}.")
    flows = aligned(flows)
    early, late = flows.iloc[:LEARNED], flows.iloc[LEARNED:]
    scm = model(early)
    for title, rows in (("learned from", early), ("later", late)):
        print(f"log-density of the rows {title}: {float(scm.log_prob(rows).mean()):.2f}")
    noise = scm.abduct(early)
    pairs = np.corrcoef(np.stack([noise[name] for name in HEADS]))[np.triu_indices(3, 1)]
    print(
        f"correlation of the noises of the three rivers: {pairs.min():.2f} to {pairs.max():.2f}: they share the rain\n"
    )

    row, ordinary = flood(flows), float(early[END].median())
    print(f"Had {END} been at {ordinary:.1f} m³/s instead of {row[END]:.0f}:")
    report(bc.backtrack(scm, row, {END: ordinary}))

    print("Could one station have done it alone?")
    for name in tables.RIVER_GRAPH:
        alone = bc.backtrack(scm, row, {END: ordinary}, scope=[name])
        far = f"only by a noise of {float(alone.farthest):.0f} sd" if alone.status == "converged" else alone.status
        print(f"{name:18s} {far}")


if __name__ == "__main__":
    main()
