"""Packet-level devices: what a correct translator, relay, NAT or router sends for each frame."""
