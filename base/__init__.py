"""Foundations of every folder: strict models, quantities, errors, entry points, files and locks."""
