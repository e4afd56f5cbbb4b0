"""The constants of the default sampler, each with its reason; `docs/samples.md` counts what the parts buy."""

__all__ = ["SETTINGS", "Settings"]

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """Constants, in standardized coordinates: the normal prior has mean 0 and standard deviation 1.

    Args:
        block: The evaluations at a time, whose intermediate results fit into the cache: a tenth faster than 16,384.
        newton_steps: The most Newton steps; three are usual.
        newton_radius: The largest norm of a step in that of the covariance, so that a step stays where the Hessian holds.
        newton_lengths: The lengths of a step, of which the best is taken.
        newton_decrement: The squared decrement at which a mode is found: a tenth of a standard deviation off is no matter.
        difference: The step of the difference of gradients, in standard deviations: the bulk of the density.
        curvatures: The range of curvatures relative to those before, where the density is not concave or has a kink.
        draws_per_sample: The draws of a round for each sample, so that few samples are the same draw.
        least_draws: The samples for which a row is drawn at least: the diagnostics need some hundred draws.
        most_prior_draws: The most draws of the prior; one is made for each sample.
        prior_sds: The standard deviations of these: as wide as the prior, and wider, for distances with heavier tails.
        rounds: The most rounds.
        most_components: The most components that are fitted in a round; those of earlier rounds stay in the mixture.
        new_scale: The scale of a component that a round adds, in that of the one it is taken from.
        new_share: The share of that component in the draws of the round.
        effective: The relative effective size at which draws are enough; a row is trusted from a little less.
        trusted: The relative effective size from which samples are trusted, that of the design.
        most_chains: The most chains of a row; above, each yields several samples.
        warmup: The moves of a chain before they are recorded.
        window: The moves between adaptations of the number of leapfrog steps.
        recorded: The moves recorded at first; all so far become warm-up and twice as many are made until they agree.
        attempts: The most attempts.
        trajectory: The length of a trajectory: a quarter of the period of a standard normal density, after which
            position and start are independent.
        jitter: Its relative jitter, against resonance.
        leapfrog: The least number of leapfrog steps, the first, and the most.
        acceptance: The acceptance rates below which there are more steps, and above which fewer: around the optimum
            of 0.65 to 0.9.
    """

    block: int = 4096
    newton_steps: int = 8
    newton_radius: float = 3.0
    newton_lengths: tuple[float, ...] = (1.0, 0.5, 0.25, 0.0625)
    newton_decrement: float = 0.01
    difference: float = 0.5
    curvatures: tuple[float, float] = (0.25, 1e4)
    draws_per_sample: int = 4
    least_draws: int = 64
    most_prior_draws: int = 1024
    prior_sds: tuple[float, ...] = (1.0, 2.0)
    rounds: int = 16
    most_components: int = 4
    new_scale: float = 0.5
    new_share: float = 0.2
    effective: float = 0.7
    trusted: float = 0.8
    most_chains: int = 256
    warmup: int = 8
    window: int = 2
    recorded: int = 16
    attempts: int = 2
    even: float = 0.6
    enough: float = 0.85
    moves: int = 5
    trajectory: float = 1.57
    jitter: float = 0.3
    leapfrog: tuple[int, int, int] = (1, 3, 24)
    acceptance: tuple[float, float] = (0.7, 0.95)


SETTINGS = Settings()
