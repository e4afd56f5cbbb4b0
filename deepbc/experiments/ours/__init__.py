"""Experiments of our own, one file each."""
