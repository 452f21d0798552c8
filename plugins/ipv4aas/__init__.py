"""IPv4 as a service with two devices (RFC 9313)."""
