"""``v6t audit``: clauses, suites and the device they are asked of."""
