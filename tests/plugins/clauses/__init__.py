"""Clauses before devices that are right, and before devices with one planted fault each."""
