r"""The nearest world by a multi-start of its own, which shares no code with the solvers: the truth of `oracle`.

Noises in scope are free. A variable that is asked about and whose own noise is in scope takes the noise nearest to a
free one that leads to what is asked; another is held by a penalty. All starts of all rows are minimised by
Levenberg-Marquardt steps, the costs with corners rounded less and less; the best few go on to the end.
"""

import math

import torch
from oracle_models import Model, Question, Score
from torch import Tensor

STARTS, KEPT, STEPS, POLISH = 100, 6, 40, 60
# Roundings of corners and penalties, from stage to stage; a penalised world misses by about one over the penalty.
ROUNDINGS, PENALTIES = (0.1, 1e-2, 1e-4, 1e-6), (1e1, 1e3, 1e5, 1e7)
# Weight 0 is the limit from above.
LEAST_WEIGHT = 1e-9


class Search:
    """The cost of a batch of rows as a function of the noises in scope."""

    def __init__(self, model: Model, question: Question) -> None:
        self.model, self.question = model, question
        asked, upstream = set(question.lower), set(question.lower)
        for name in reversed(list(model.laws)):
            if name in upstream:
                upstream |= set(model.parents[name])
        self.names = [name for name in model.laws if name in upstream]
        self.free = [name for name in self.names if name in question.scope]
        self.held = [name for name in self.names if name in asked and name not in self.free]
        self.weights = torch.tensor([question.weights.get(name, 1.0) or LEAST_WEIGHT for name in self.free]).double()
        self.powers = torch.tensor([question.powers[name] for name in self.free]).double()
        self.rest = torch.cat([question.noise[name] for name in self.free], -1)

    def moves(self, z: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Moves of the noises in scope and what misses, in terms of the free ones `(points, free)`."""
        ask, x, u = self.question, {}, {}
        for name in self.names:
            parents = [x[each] for each in self.model.parents[name]]
            pa, law = torch.cat(parents, -1) if parents else z[:, :0], self.model.laws[name]
            if name not in self.free:
                x[name] = law.predict(None if isinstance(law, Score) else ask.noise[name][rows], pa)
                continue
            k = self.free.index(name)
            u[name] = z[:, k : k + 1]
            if name in ask.lower:
                ends = (law.abduct(each[name][rows], pa) for each in (ask.lower, ask.upper))
                u[name] = torch.minimum(torch.maximum(u[name], next(ends)), next(ends))
            x[name] = law.predict(u[name], pa)
        miss = [torch.relu(ask.lower[n][rows] - x[n]) + torch.relu(x[n] - ask.upper[n][rows]) for n in self.held]
        moved = torch.cat([u[name] for name in self.free], -1) - self.rest[rows]
        # A free noise that was taken elsewhere follows, so that each point has a slope.
        loose = z - moved - self.rest[rows]
        return torch.cat([moved, loose], -1), torch.cat(miss, -1) if miss else z[:, :0]

    def cost(self, moves: Tensor, rounding: float) -> Tensor:
        m, p = moves[:, : len(self.free)], self.powers
        return torch.where(p == 1, (m.square() + rounding**2).sqrt() - rounding, m.abs() ** p) @ self.weights

    def objective(self, z: Tensor, rows: Tensor, rounding: float, penalty: float) -> Tensor:
        moves, miss = self.moves(z, rows)
        loose = moves[:, len(self.free) :].square().sum(-1)
        return (self.cost(moves, rounding) + 0.1 * loose + penalty * miss.square().sum(-1)).nan_to_num(nan=math.inf)

    def step(self, z: Tensor, rows: Tensor, rounding: float, penalty: float) -> tuple[Tensor, Tensor]:
        """Gradient and an approximate Hessian by the free noises."""
        free = len(self.free)
        with torch.enable_grad():
            z = z.detach().requires_grad_()
            moves, miss = self.moves(z, rows)
            outputs = torch.cat([moves, miss], -1)
            by = [torch.autograd.grad(outputs[:, k].sum(), z, retain_graph=True)[0] for k in range(outputs.shape[-1])]
        j, m, p = torch.stack(by, -2), moves[:, :free].detach(), self.powers
        near = (m.square() + rounding**2).sqrt()
        slope = torch.where(p == 1, m / near, p * m.sign() * m.abs() ** (p - 1)) * self.weights
        bend = torch.where(p == 1, 1 / near, p * (p - 1) * m.abs().clamp_min(0.02) ** (p - 2)) * self.weights
        slope = torch.cat([slope, 0.2 * moves[:, free:].detach(), 2 * penalty * miss.detach()], -1)
        bend = torch.cat([bend, torch.full_like(bend, 0.2), torch.full_like(miss, 2 * penalty)], -1).detach()
        return (j.mT @ slope.unsqueeze(-1)).squeeze(-1), (j * bend.unsqueeze(-1)).mT @ j

    def descend(self, z: Tensor, rows: Tensor, steps: int, rounding: float, penalty: float) -> tuple[Tensor, Tensor]:
        damping = torch.full_like(z[:, 0], 1e-2)
        value = self.objective(z, rows, rounding, penalty)
        gradient, hessian = self.step(z, rows, rounding, penalty)
        for _ in range(steps):
            ridge = damping[:, None] * (1e-3 + hessian.diagonal(dim1=-2, dim2=-1))
            move = torch.linalg.solve_ex(hessian + torch.diag_embed(ridge), gradient.unsqueeze(-1))[0].squeeze(-1)
            move = move * (4 / move.norm(dim=-1, keepdim=True).clamp_min(4))
            there = z - move.nan_to_num()
            after = self.objective(there, rows, rounding, penalty)
            better = after < value
            if not ((value - after > 1e-9 * (1 + value)) | ~better & (damping < 1e8)).any():
                break
            z, value = torch.where(better[:, None], there, z), torch.where(better, after, value)
            damping = torch.where(better, damping / 5, damping * 4).clamp(1e-9, 1e10)
            new_gradient, new_hessian = self.step(z, rows, rounding, penalty)
            gradient = torch.where(better[:, None], new_gradient, gradient)
            hessian = torch.where(better[:, None, None], new_hessian, hessian)
        return z, value


def search(model: Model, question: Question, seed: int = 0) -> Tensor:
    """The least cost of each row that a hundred starts find; infinite where none meets what is asked."""
    with torch.no_grad():
        made, stream = Search(model, question), torch.Generator().manual_seed(seed)
        count, free = len(made.rest), len(made.free)
        if not free:
            return torch.full((count,), math.inf).double()
        spread = torch.linspace(0.5, 3.0, STARTS).double()
        spread[0] = 0.0
        z = made.rest.unsqueeze(1) + spread[:, None] * torch.randn(count, STARTS, free, generator=stream).double()
        rows = torch.arange(count).repeat_interleave(STARTS)
        rough, held = bool((made.powers == 1).any()), bool(made.held)
        stages = list(zip(ROUNDINGS, PENALTIES, strict=True)) if rough or held else [(0.0, 0.0)]
        z, value = made.descend(z.flatten(0, 1), rows, STEPS, *stages[0])
        if len(stages) > 1:
            z, value = made.descend(z, rows, STEPS, *stages[1])
        order = value.reshape(count, STARTS).argsort(-1)[:, :KEPT]
        z = z.reshape(count, STARTS, free).gather(1, order.unsqueeze(-1).expand(-1, -1, free)).flatten(0, 1)
        rows = torch.arange(count).repeat_interleave(KEPT)
        for stage in stages:
            z, value = made.descend(z, rows, POLISH, *stage)
        moves, miss = made.moves(z, rows)
        cost = torch.where((miss <= 1e-4).all(-1), made.cost(moves, 0.0), math.inf).reshape(count, KEPT)
        return cost.amin(-1)
