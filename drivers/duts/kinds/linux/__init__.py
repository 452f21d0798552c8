"""Drivers of the Linux kernel's own forwarding."""
