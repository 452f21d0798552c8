"""Lightweight 4over6 (RFC 7596)."""
