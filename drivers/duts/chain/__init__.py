"""Chains of several devices that are measured as one."""
