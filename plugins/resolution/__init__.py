"""Technologies that answer queries."""
