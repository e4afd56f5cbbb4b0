"""Explain a prediction: which noise would have had to be different for a borderline score, with every causal law kept?

Credits: age -> amount -> duration, and a classifier of defaults on top of all three. The prediction has no noise of its
own, so the antecedent is a constraint on the noises of its causes.
"""

import numpy as np
import torch

import deepbc as bc

# A table. Here it is drawn; yours is a data frame.
stream = np.random.default_rng(0)
age = stream.normal(36, 11, 2000)
amount = 2500 + 25 * (age - 36) + stream.normal(0, 900, 2000)
duration = 21 + 0.008 * (amount - 2500) + stream.normal(0, 5, 2000)
data = {"age": age, "amount": amount, "duration": duration}

# Any classifier that torch can differentiate; its parents come side by side, in the order of the graph.
classifier = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Sigmoid())
with torch.no_grad():
    classifier[0].weight.copy_(torch.tensor([[-0.05, 0.0003, 0.15]]))
    classifier[0].bias.fill_(-3.2)

graph = bc.CausalGraph.parse("age -> amount -> duration; age, amount, duration -> default")
laws = {"age": bc.Linear(), "amount": bc.Linear(), "duration": bc.Linear(), "default": bc.Predictor(classifier)}
scm = bc.SCM(graph, laws)
scm.fit(data)

# A row that the classifier turns down. Had it been a borderline case, what would have been different?
applicant = {"age": 27.0, "amount": 3400.0, "duration": 33.0}
questions = {
    "probability 0.5": {},
    "same, not by age": {"scope": ["amount", "duration"]},
    "same, one noise": {"solver": bc.Sparse(keep=1, by="variable", search="exhaustive")},
    "at most 0.3": {"antecedent": {"default": bc.at_most(0.3)}},
}

print(f"{'question':16s} {'age':>6s} {'amount':>8s} {'duration':>9s} {'default':>8s} {'distance':>9s}  carried by")
scores = scm.complete(values=applicant).values
print(f"{'(as it was)':16s} " + "{:6.1f} {:8.0f} {:9.1f} {:8.2f}".format(*(float(scores[name]) for name in graph)))
for title, options in questions.items():
    cf = bc.backtrack(scm, applicant, **{"antecedent": {"default": 0.5}, **options})
    values = "{:6.1f} {:8.0f} {:9.1f} {:8.2f}".format(*(float(cf.values[name]) for name in graph))
    carried = ", ".join(f"{name} {float(moved / cf.distance):.0%}" for name, moved in cf.moved.items() if moved > 0)
    print(f"{title:16s} {values} {float(cf.distance):9.3f}  {carried}  ({cf.status})")

# The amount moved, so the duration follows its law: an explanation that changes one column alone would not know that.
# An answer that cannot be is said to be so.
print(bc.backtrack(scm, applicant, {"default": 1.2}).status.explain())
