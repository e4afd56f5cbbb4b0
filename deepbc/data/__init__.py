"""Tables in and out: variables with their types, categories, columns, frames, files."""

__all__ = ["Variable", "World"]

from deepbc.data.variables import Variable
from deepbc.data.world import World
