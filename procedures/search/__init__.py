"""Searches for the highest rate."""
