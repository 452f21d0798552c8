"""Stream sets as files."""
