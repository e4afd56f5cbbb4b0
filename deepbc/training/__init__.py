"""The training loop, its optimiser and checkpoints, and the report of a fit."""

__all__ = ["FitReport", "Split", "Train", "Training"]

from deepbc.training.report import FitReport
from deepbc.training.trainer import Split, Train, Training
