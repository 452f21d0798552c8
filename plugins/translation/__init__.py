"""IP/ICMP translation: RFC 7915, RFC 6052, RFC 7757."""
