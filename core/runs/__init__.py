"""Carrying a run out: bench, journal, ceiling, results."""
