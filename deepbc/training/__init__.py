"""The training loop, its optimiser and checkpoints, and the report of a fit."""

__all__ = ["FitReport", "Train", "Training"]

from deepbc.training.report import FitReport
from deepbc.training.trainer import Train, Training
