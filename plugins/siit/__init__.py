"""Stateless translation: SIIT and CLAT."""
