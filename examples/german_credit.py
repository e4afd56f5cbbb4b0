"""Why was this loan refused? German credit, explained along the causal laws, and beside it without them.

A classifier predicts bad credits from gender, age, amount and duration. One applicant is turned down: 24 years old,
4308 marks, 48 months. Had the prediction been 50 %, what would have been different?

Wachter's explanation looks for the nearest row of the table that has this prediction, as if its columns had nothing to
do with each other. Backtracking looks for the nearest noise: where the amount changes, the duration follows its law.

Needs german.data (see `deepbc.datasets.tables`); without it, the example says so and ends.
"""

import numpy as np
import torch

import deepbc as bc
from deepbc.datasets import tables

NAMES = ["male", "age", "amount", "duration"]
# Gender is what it was.
SCOPE = ["age", "amount", "duration"]
APPLICANT = 11
CLASSIFIER = "male, age, amount, duration -> bad"


def classifier(data):
    """A logistic regression of bad credits, not regularised, by Newton's steps."""
    sd = data[NAMES].std(ddof=0)
    x = np.column_stack([np.ones(len(data)), data[NAMES] / sd])
    beta = np.zeros(x.shape[1])
    for _ in range(20):
        p = 1 / (1 + np.exp(-x @ beta))
        beta += np.linalg.solve(x.T @ (x * (p * (1 - p))[:, None]), x.T @ (data["bad"] - p))

    def probability(parents):
        return torch.sigmoid(
            beta[0] + sum(b * parents[name] / sd[name] for b, name in zip(beta[1:], NAMES, strict=True))
        )

    return bc.Predictor(probability)


def causal_model(data, predictor):
    """Amount by gender and age, duration by amount, each by a linear law, and the prediction on top."""
    graph = bc.CausalGraph.parse(f"male, age -> amount -> duration; {CLASSIFIER}")
    scm = bc.SCM(graph, {**{name: bc.Linear() for name in NAMES}, "bad": predictor})
    scm.fit(data[NAMES], seed=0)

    return scm


def weights(scm, data):
    """Weights that count a move of the noise in units of its variable: (sd of the noise / sd of the variable)²."""
    row, sd = data[NAMES].iloc[0], data[NAMES].std(ddof=0)

    def worth(name):
        """What one unit of noise is worth, in units of the variable; the laws are linear, so any row will do."""
        zero, one = (scm.complete(values=row.drop(name), noise={name: u}).values[name] for u in (0.0, 1.0))
        return float(one - zero)

    return {name: (worth(name) / sd[name]) ** 2 for name in SCOPE}


def backtracking(scm, data):
    """The explanation that keeps the laws."""
    row = data[NAMES].iloc[APPLICANT]

    return bc.backtrack(scm, row, {"bad": 0.5}, distance=bc.Squared(weights(scm, data)), scope=SCOPE)


def unrelated_model(predictor):
    """The prediction on top of variables that have nothing to do with each other: each is its own noise, x = u."""
    laws = {name: bc.Equation(predict=lambda u, parents: u, abduct=lambda x, parents: x) for name in NAMES}

    return bc.SCM(bc.CausalGraph.parse(CLASSIFIER), {**laws, "bad": predictor})


def wachter(predictor, data):
    """The explanation that knows no laws: the nearest row, by the sum of changes in standard deviations."""
    row, sd = data[NAMES].iloc[APPLICANT], data[NAMES].std(ddof=0)
    distance = bc.Absolute({name: 1 / sd[name] for name in SCOPE})

    return bc.backtrack(unrelated_model(predictor), row, {"bad": 0.5}, distance=distance, scope=SCOPE)


def line(title, values):
    """A line of the table."""
    numbers = (float(values[name]) for name in (*NAMES[1:], "bad"))

    return f"{title:20s}" + "{:8.2f} {:8.0f} {:10.2f} {:8.2f}".format(*numbers)


def main():
    """Fits, asks both ways, prints, draws."""
    try:
        data = tables.german_credit()
    except bc.DataError as missing:
        print(missing)
        return

    predictor = classifier(data)
    scm = causal_model(data, predictor)
    cf, other = backtracking(scm, data), wachter(predictor, data)

    print(f"{'':20s}{'age':>8s} {'amount':>8s} {'duration':>10s} {'bad':>8s}")
    print(line("as it was", cf.factual.values))
    print(line("backtracking", cf.values), f"  ({cf.status})")
    print(line("Wachter", other.values), f"  ({other.status})")

    carried = ", ".join(f"{name} {float(cf.moved[name] / cf.distance):.0%}" for name in SCOPE)
    print(f"\nCarried by the noise of: {carried}.")
    follows = float(scm.predict({**cf.factual.noise, "amount": cf.noise["amount"], "age": cf.noise["age"]})["duration"])
    print(
        f"The smaller amount alone would have brought the duration to {follows:.1f} months, by its law: Wachter's world"
    )
    print("does not know that law, so all its change is in the duration.")

    cf.plot("german_credit.png")
    print("figure: german_credit.png")


if __name__ == "__main__":
    main()
