"""Stream sets made into others that mean the same."""
