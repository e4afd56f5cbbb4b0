"""The structural causal model: a graph, a mechanism for each variable, and the pass that completes a world."""

__all__ = ["SCM"]

from deepbc.scm.model import SCM
