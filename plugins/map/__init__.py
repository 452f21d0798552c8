"""MAP-E and MAP-T border relays (RFC 7597, RFC 7599)."""
