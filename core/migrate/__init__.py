"""Configurations of other testers, turned into run files."""
