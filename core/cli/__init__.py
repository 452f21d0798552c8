"""The v6t command: one module per sub-command, and what a terminal shows."""
