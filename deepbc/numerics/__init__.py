"""Numerical building blocks: random numbers by counting, seeds, the normal distribution on an interval."""
