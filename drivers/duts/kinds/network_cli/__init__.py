"""Devices that are configured by lines typed at their own command line."""
