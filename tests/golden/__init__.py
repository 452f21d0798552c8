"""Regression tests that compare computed results with stored ones."""
