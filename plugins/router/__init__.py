"""Plain IPv4 and IPv6 forwarding."""
