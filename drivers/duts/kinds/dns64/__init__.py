"""DNS servers that make AAAA records of A records."""
