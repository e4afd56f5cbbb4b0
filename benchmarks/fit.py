"""What a fit costs: seconds to the accuracy we promise, rows per second, and our loop over a bare one.

The rows are the 60,000 of Morpho-MNIST where DEEPBC_DATA is set, else as many drawn from its equations. The bare loop
is forward, backward and a step of `torch.optim.Adam` on the same slices of the same tensors; both loops run in turn,
and the least time of an epoch counts.
"""

import time

import torch
from rows import tables

import deepbc as bc
from deepbc.data.variables import Family, Variable
from deepbc.numerics.seeding import generator
from deepbc.recipes import morphomnist
from deepbc.training.checkpoint import Checkpoint
from deepbc.training.distributed import Share
from deepbc.training.trainer import Split, Trainer, Training

ROUNDS = 8


def accuracy() -> None:
    train, test, source = tables()
    truth = morphomnist.truth()
    print(f"fit to {len(train):,} rows ({source}), {torch.get_num_threads()} threads")
    for bounds in ({"intensity": (64, 255)}, {}):
        scm = bc.SCM(truth.graph, bounds=bounds)
        report = scm.fit(train, seed=0)
        for each in report:
            excess = (truth.log_prob(test, of=[each.name]) - scm.log_prob(test, of=[each.name])).mean().item()
            speed = each.epochs * 0.8 * len(train) / each.seconds
            print(
                f"  {'bounds' if bounds else 'no bounds':10s} {each.name:10s} {excess:+.4f} nats above the truth, "
                f"{each.seconds:5.1f} s, {each.epochs} epochs, {speed:,.0f} rows/s  {' '.join(each.notes)}"
            )


def overhead() -> None:
    data = morphomnist.truth().sample(40_000, seed=0).values
    x, parents = data["intensity"][:, None], data["thickness"][:, None]
    family = Family(Variable("intensity", (), 64, 255), (Variable("thickness"),))
    training = Training(epochs=1)
    rows = Split(x, parents, torch.arange(len(x)), torch.arange(2))

    def ours() -> float:
        flow = started(family, rows)
        loop = Trainer(training, rows, "intensity", 0, Share(), Checkpoint(None, ""), lambda *told: None)
        start = time.perf_counter()
        loop(flow, "flow")
        return time.perf_counter() - start

    def bare() -> float:
        flow = started(family, rows).requires_grad_(True)
        optimizer = torch.optim.Adam(flow.parameters(), 1e-2)
        start = time.perf_counter()
        for batch in torch.randperm(len(x)).split(training.batch_of(len(x))):
            optimizer.zero_grad()
            flow.loss(x[batch], parents[batch]).mean().backward()
            optimizer.step()
        return time.perf_counter() - start

    times = {"ours": [], "bare": []}
    for _ in range(ROUNDS):
        times["bare"].append(bare())
        times["ours"].append(ours())
    steps = -(-len(x) // training.batch_of(len(x)))
    ours_best, bare_best = min(times["ours"]) / steps, min(times["bare"]) / steps
    print(f"step of our loop {1e3 * ours_best:.2f} ms, of a bare loop {1e3 * bare_best:.2f} ms", end="")
    print(f": ratio {ours_best / bare_best:.2f}")


def started(family: Family, rows: Split) -> bc.Flow:
    flow = bc.Flow().bind(family, generator(0))
    flow._start(rows)
    return flow


if __name__ == "__main__":
    overhead()
    accuracy()
