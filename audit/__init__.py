"""Audits: clauses of RFCs as rows of packets and scenarios, and a packet-level device."""
