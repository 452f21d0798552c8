"""Carrying a run out: bench, journal, capacity, results."""
