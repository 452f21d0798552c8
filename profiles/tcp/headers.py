"""Lengths of the TCP headers that v6t sends (RFC 9293)."""

from __future__ import annotations

OPENING_OCTETS, HEADER_OCTETS = 36, 32
"""A TCP header with the options of a SYN, and with those of any other segment."""
