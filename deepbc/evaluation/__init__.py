"""Is the model right, and are its answers better than those of others? Checks, metrics and baselines."""
