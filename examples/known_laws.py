"""Laws you know, a prediction on top, and a law swapped for another: no data needed."""

import torch

import deepbc as bc


def growth(u, parents):
    """Yield grows with rain, up to a point."""
    return 5 * torch.tanh(parents["rain"]) + 0.5 * u


def growth_noise(x, parents):
    """The noise behind a yield."""
    return (x - 5 * torch.tanh(parents["rain"])) / 0.5


rain = bc.Equation(predict=lambda u, parents: torch.exp(0.4 * u), abduct=lambda x, parents: x.log() / 0.4)
harvest = bc.Equation(predict=growth, abduct=growth_noise)
income = bc.Predictor(lambda parents: 100 * parents["harvest"] - 20)

graph = bc.CausalGraph.parse("rain -> harvest -> income")
scm = bc.SCM(graph, {"rain": rain, "harvest": harvest, "income": income})

# The income follows from the harvest, so the factual world need not name it.
factual = {"rain": 0.8, "harvest": 3.1}
cf = bc.intervene(scm, factual, {"rain": [0.5, 1.0, 2.0]})
print(cf.to_frame()[["rain", "harvest", "income"]].round(2).to_string(index=False))

# Modularity: irrigation changes one law; the other mechanisms are shared, and the noise of the row is the same.
irrigated = bc.Equation(
    predict=lambda u, parents: 4.5 + 0.1 * parents["rain"] + 0.5 * u,
    abduct=lambda x, parents: (x - 4.5 - 0.1 * parents["rain"]) / 0.5,
)
noise = scm.abduct(factual)
print(float(scm.predict(noise)["income"]), float(scm.replace("harvest", irrigated).predict(noise)["income"]))
