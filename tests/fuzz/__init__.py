"""Inputs nobody would give on purpose, and what becomes of them."""
