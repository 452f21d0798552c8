"""How each benchmark that comes with v6t is shown."""
