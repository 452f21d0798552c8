"""Drivers of Tundra-NAT64."""
