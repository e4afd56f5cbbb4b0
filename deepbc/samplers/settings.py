"""The constants of the default sampler, each with its reason; `docs/samples.md` counts what the parts buy."""

__all__ = ["SETTINGS", "Settings"]

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """Constants, in standardized coordinates: the normal prior has mean 0 and standard deviation 1.

    Args:
        block: The evaluations at a time, whose intermediate results fit into the cache: a tenth faster than 16,384.
        newton_steps: The most Newton steps; three are usual.
        newton_radius: The largest norm of a step in that of the covariance: the Hessian holds no farther.
        newton_lengths: The lengths of a step, of which the best is taken.
        newton_decrement: The squared decrement at which a mode is found; a tenth of a standard deviation is no matter.
        difference: The step of the difference of gradients, in standard deviations: the bulk of the density.
        curvatures: The range of curvatures relative to those before, where the density is not concave or has a kink.
        variances: The range of variances along axes.
        grid: The grid that means and covariances are rounded to: above rounding errors, far below standard deviations.
        draws_per_sample: The draws of a round for each sample, so that few samples are the same draw.
        least_draws: The samples for which a row is drawn at least: the diagnostics need some hundred draws.
        most_prior_draws: The most draws of the prior; one is made for each sample.
        prior_sds: The standard deviations of these: as wide as the prior, and wider for distances with heavier tails.
        rounds: The most rounds; half as many leave a tenth of the rows of wavy laws with 12 causes.
        most_components: The most components that are fitted in a round; two to eight take as many rounds.
        least_weight: The weight that an EM step leaves each component, so that none vanishes by chance.
        new_scale: The scale of a component that a round adds, in that of the one it is taken from.
        new_share: The share of that component in the draws of the round.
        trusted: The effective size, in samples, from which they are trusted: that of the design.
        even: The relative effective size of weights from which samples are not moved: they have no bias to be seen.
        moves: The trajectories of moved samples; three leave a quarter of the bias.
        most_chains: The most chains of a row; where samples are more, each chain yields several.
        warmup: The moves of a chain in which it is adapted.
        window: The moves between adaptations of the number of steps.
        recorded: The moves of the first attempt: the least from which autocorrelation can be told.
        attempts: The most attempts; a third one saved no row.
        trajectory: The length of a trajectory: a quarter of the period of a standard normal density, after which
            position and start are independent.
        jitter: Its relative jitter, against resonance.
        leapfrog: The least number of steps of a trajectory, the first and the most.
        acceptance: The acceptance rates below which there are more steps, and above which fewer.
    """

    block: int = 4096
    newton_steps: int = 8
    newton_radius: float = 3.0
    newton_lengths: tuple[float, ...] = (1.0, 0.5, 0.25, 0.0625)
    newton_decrement: float = 0.01
    difference: float = 0.5
    curvatures: tuple[float, float] = (0.25, 1e4)
    variances: tuple[float, float] = (1e-10, 16.0)
    grid: float = 2.0**-32
    draws_per_sample: int = 4
    least_draws: int = 64
    most_prior_draws: int = 1024
    prior_sds: tuple[float, ...] = (1.0, 2.0)
    rounds: int = 20
    most_components: int = 4
    least_weight: float = 1e-3
    new_scale: float = 0.5
    new_share: float = 0.2
    trusted: float = 0.8
    even: float = 0.6
    moves: int = 5
    most_chains: int = 256
    warmup: int = 8
    window: int = 2
    recorded: int = 16
    attempts: int = 2
    trajectory: float = 1.57
    jitter: float = 0.3
    leapfrog: tuple[int, int, int] = (1, 3, 24)
    acceptance: tuple[float, float] = (0.7, 0.95)


SETTINGS = Settings()
