"""Drivers of TAYGA."""
