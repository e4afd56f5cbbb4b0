"""The constants of `Exact`, each with its reason. `benchmarks/oracle.py` shows what they buy."""

__all__ = ["Settings"]

from dataclasses import dataclass, replace

# The starts for which the risk is given.
USUAL_STARTS = 24


@dataclass(frozen=True, slots=True)
class Settings:
    """The constants of the local and the global search.

    Args:
        tolerance: A run takes its last step once that is predicted to save less than this part of its cost plus one;
            steps converge superlinearly, so that what then remains is far less.
        steps: The most steps of a run.
        feasibility: The largest violation of a condition, in standard deviations of its variable, that counts as none:
            a hundredth of the error that an answer may have.
        max_step: Steps are scaled back to this norm, in standard deviations of the noise: models end there.
        radius_up, radius_down, least_radius: After a step that was rejected, to this part of its length; after a good
            one to so many times that. A run whose steps would be shorter than the last ends.
        accepted_ratio: The least part of the predicted decrease that makes a step acceptable; the usual value.
        good_ratio: The part of it from which the damping falls.
        first_damping, damping_up, damping_down, least_damping: Levenberg-Marquardt damping: from none to the first at a
            rejected step, and then by these factors; a damping below the least is none.
        kink_damping: The least damping where costs have kinks, without which a program may have no curvature.
        first_penalty, penalty_up, most_penalty: The weight of a violation in the merit function, in units of the cost:
            it rises where a multiplier reaches it, and one that would exceed the last means that nothing is feasible.
        surprise: A row searches for other minima if a step of its first run lowered the merit by more or less than
            predicted by this part: the merit is not quadratic.
        bend: It does so, too, if a derivative along a step changed by more than this part,
        stalled_cost, stalled_share: or if its cost ends above the first, in units of the least weight, and above the
            second part of its cost at rest.
        rounding: A merit that is as predicted but for this part is quadratic, so that its minimum is certain.
        convex_risk: The probability that such a row has a lower minimum after all; as it was on other models.
        rounds: The numbers of starts of a row, from round to round.
        screened: The points that are screened for each start.
        spreads: Their spreads in turn, in units of the radius of the region.
        apart: Starts of a round are this far apart, in that unit.
        coarse_tolerance, coarse_steps: Tolerance and most steps of a run that is only compared with others.
        polish: The tolerance of a run that goes on from a coarse minimum, relative to that of others: one step more.
        gain: A minimum is lower by at least this part, else it is the same.
        same_minimum: Runs that end so near to each other ended at the same minimum.
        screened_worth: A start at the best of screened points finds as much as so many at random points.
        risk: The probability of having missed a lower minimum at which a row stops.
        grid, grid_starts: The points of the grid of a single free noise, and the most starts from it.
        grid_ratio: A point of the grid is a start if it costs less than the unit plus so many times the best cost.
    """

    tolerance: float = 1e-6
    steps: int = 200
    feasibility: float = 1e-8
    max_step: float = 5.0
    radius_up: float = 4.0
    radius_down: float = 0.3
    accepted_ratio: float = 1e-4
    good_ratio: float = 0.25
    first_damping: float = 0.03
    damping_up: float = 5.0
    damping_down: float = 0.2
    least_damping: float = 1e-3
    least_radius: float = 1e-9
    kink_damping: float = 1e-2
    first_penalty: float = 10.0
    penalty_up: float = 10.0
    most_penalty: float = 1e8
    surprise: float = 0.3
    bend: float = 0.5
    stalled_cost: float = 1.0
    stalled_share: float = 0.3
    rounding: float = 1e-6
    convex_risk: float = 1e-3
    rounds: tuple[int, ...] = (4, 8, 12)
    screened: int = 12
    spreads: tuple[float, ...] = (0.7, 1.0, 1.4)
    apart: float = 1.2
    coarse_tolerance: float = 1e-3
    coarse_steps: int = 30
    polish: float = 0.01
    gain: float = 1e-6
    same_minimum: float = 0.1
    screened_worth: float = 2.0
    risk: float = 0.01
    grid: int = 33
    grid_starts: int = 4
    grid_ratio: float = 1.5

    def with_starts(self, starts: int) -> "Settings":
        """The same with rounds of so many starts in all, a sixth, a third and the rest, and as much less risk."""
        first = -(-starts // 6)
        rounds = (first, 2 * first, starts - 3 * first)

        risk = self.risk * USUAL_STARTS / max(starts, 1)

        return replace(self, rounds=tuple(each for each in rounds if each > 0), risk=min(risk, 0.5))
