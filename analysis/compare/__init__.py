"""Runs against runs: what may be compared, by how much they differ, and how sure that is."""
