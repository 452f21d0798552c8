"""DS-Lite (RFC 6333)."""
