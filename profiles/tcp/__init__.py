"""TCP of the tester: segments of many connections at once."""
