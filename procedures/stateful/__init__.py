"""Procedures of RFC 9693 for stateful devices."""
