"""What stateful technologies share (RFC 9693)."""
