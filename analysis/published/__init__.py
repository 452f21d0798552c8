"""Published measurements to compare with."""
