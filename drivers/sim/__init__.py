"""The simulated tester: virtual time."""
