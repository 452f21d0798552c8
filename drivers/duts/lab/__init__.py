"""Devices in namespaces of the lab."""
