r"""Chains of split Hamiltonian and independence moves, many of each row at once.

In coordinates :math:`z`, in which a normal approximation is standard, the Hamiltonian is that of a standard normal
density and a rest, :math:`\log p(z) = -\tfrac{1}{2} |z|^2 + r(z)`. A step of size :math:`\epsilon` moves under the first
exactly, a rotation, and under the second by the leapfrog scheme,

.. math:: p \leftarrow p + \tfrac{\epsilon}{2} \nabla r(z), \qquad
          (z, p) \leftarrow (z \cos \epsilon + p \sin \epsilon, \, p \cos \epsilon - z \sin \epsilon), \qquad
          p \leftarrow p + \tfrac{\epsilon}{2} \nabla r(z),

so that what is normal costs no acceptance in any dimension. Before each trajectory a draw of a mixture is proposed, which
changes modes.

References:
    Split Hamiltonian Monte Carlo (Shahbaba, Lan, Johnson and Neal, 2014).
    MCMC using Hamiltonian dynamics (Neal, 2011).
    Markov chains for exploring posterior distributions (Tierney, 1994), section 2.3.3: independence chains.
"""

__all__ = ["Chains"]

import torch
from torch import Tensor

from deepbc.numerics.counter_rng import Streams
from deepbc.samplers.mixture import Mixture, systematic
from deepbc.samplers.settings import SETTINGS
from deepbc.samplers.target import Standardized


class Chains:
    """Creates chains.

    Args:
        target: The densities, one a row.
        y: Their states, with shape `(rows, chains, free)`.
        proposal: The mixtures of independence moves.
        metric: The mixtures of the normal approximations, of which one is chosen for each move.
        streams: The random numbers of each row.
    """

    def __init__(self, target: Standardized, y: Tensor, proposal: Mixture, metric: Mixture, streams: Streams) -> None:
        self.target, self.proposal, self.metric, self.streams = target, proposal, metric, streams
        self.y, self.moves = y, 0
        self.log_prob, self.gradient = target.gradients(y)
        self.steps = torch.full((target.rows,), SETTINGS.leapfrog[1], device=y.device)
        self.acceptance = torch.zeros(target.rows, dtype=y.dtype, device=y.device)

    def select(self, rows: Tensor) -> "Chains":
        """Takes the chains of the given rows."""
        part = object.__new__(Chains)
        part.target, part.streams = self.target.select(rows), self.streams.select(rows)
        part.moves = self.moves
        part.proposal, part.metric = self.proposal.select(rows), self.metric.select(rows)
        for name in ("y", "log_prob", "gradient", "steps", "acceptance"):
            setattr(part, name, getattr(self, name)[rows])

        return part

    def adapt(self) -> None:
        """Makes the moves of the warm-up, in which the number of leapfrog steps follows the acceptance rate."""
        least, _, most = SETTINGS.leapfrog
        low, high = SETTINGS.acceptance
        for _ in range(SETTINGS.warmup // SETTINGS.window):
            self.run(SETTINGS.window)
            steps = torch.where(self.acceptance < low, 2 * self.steps, self.steps)
            self.steps = torch.where(self.acceptance > high, self.steps - 1, steps).clamp(least, most)

    def run(self, moves: int) -> Tensor:
        """Makes so many moves, and returns states and log-densities, `(chains, moves, rows, free + 1)`."""
        states, rates = [], []
        for _ in range(moves):
            self._independence(self.moves)
            rates.append(self._hamiltonian(self.moves))
            self.moves += 1
            states.append(torch.cat([self.y, self.log_prob.unsqueeze(-1)], dim=-1))
        self.acceptance = torch.stack(rates).mean(0)

        # From (rows, moves, chains, ...).
        return torch.stack(states, dim=1).transpose(0, 2)

    def _independence(self, number: int) -> None:
        """Proposes a draw of the mixture."""
        y = self.proposal.draw(self.y.shape[1], self.streams, "proposal", number)
        y = y.gather(1, self.streams.uniform(y.shape[1], "which", number).argsort(-1).unsqueeze(-1).expand_as(y))
        log_prob, gradient = self.target.gradients(y)
        before = self.log_prob - self.proposal.log_prob(self.y)
        self._accept(y, log_prob, gradient, log_prob - self.proposal.log_prob(y) - before, "independence", number)

    def _hamiltonian(self, number: int) -> Tensor:
        """Proposes the end of a trajectory, and returns the acceptance rate, `(rows,)`."""
        rows, chains, free = self.y.shape
        row = torch.arange(rows, device=self.y.device)
        component = systematic(self.metric.log_weight, 1, self.streams, "metric", number).squeeze(-1)
        mean, root = self.metric.mean[row, component].unsqueeze(1), self.metric.root[row, component]
        momentum = self.streams.normal(chains * free, "momentum", number).reshape(rows, chains, free)
        jitter = 1 + SETTINGS.jitter * (2 * self.streams.uniform(chains, "jitter", number) - 1)
        size = SETTINGS.trajectory * jitter / self.steps.unsqueeze(-1)
        z, p = torch.linalg.solve(root, (self.y - mean).mT).mT, momentum.clone()
        log_prob, gradient = self.log_prob.clone(), self.gradient.clone()
        for step in range(int(self.steps.max())):
            live = (self.steps > step).nonzero().squeeze(-1)
            half, axes = size[live].unsqueeze(-1), root[live]
            turned = p[live] + 0.5 * half * (gradient[live] @ axes + z[live])
            z[live], turned = half.cos() * z[live] + half.sin() * turned, half.cos() * turned - half.sin() * z[live]
            log_prob[live], gradient[live] = self.target.select(live).gradients(mean[live] + z[live] @ axes)
            p[live] = turned + 0.5 * half * (gradient[live] @ axes + z[live])
        log_ratio = log_prob - self.log_prob - 0.5 * (p.square() - momentum.square()).sum(-1)

        return self._accept(mean + z @ root, log_prob, gradient, log_ratio, "hamiltonian", number)

    def _accept(self, y: Tensor, log_prob: Tensor, gradient: Tensor, log_ratio: Tensor, *purpose: str | int) -> Tensor:
        """Accepts proposals by the rule of Metropolis and Hastings, and returns the rate, `(rows,)`."""
        probability = log_ratio.clamp(max=0.0).exp().nan_to_num(nan=0.0)
        accepted = self.streams.uniform(y.shape[1], "accept", *purpose) < probability
        self.log_prob = torch.where(accepted, log_prob, self.log_prob)
        self.y, self.gradient = (
            torch.where(accepted.unsqueeze(-1), new, old) for new, old in ((y, self.y), (gradient, self.gradient))
        )

        return probability.mean(-1)
