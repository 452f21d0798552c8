"""Drivers of netfilter's NAT."""
