"""Checks that any technology plugin must pass, for its author's own tests and ``v6t plugins --check``."""
