"""IPv4 in IPv6 tunnels (RFC 2473)."""
