"""Composition: configuration, registry, runs, journal and the command line."""
