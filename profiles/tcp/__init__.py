"""TCP as the tester speaks it: segments of many connections at once."""
