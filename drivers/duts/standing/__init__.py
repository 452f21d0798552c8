"""Devices that stand in the lab: namespaces of their own, configured like any other device."""
