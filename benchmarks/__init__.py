"""Benchmarks: one module for each, found through the entry point group ``v6t.benchmarks``."""
