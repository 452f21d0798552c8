"""Comparison of runs: comparable conditions, differences and their confidence intervals."""
