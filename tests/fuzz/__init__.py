"""Inputs that are invalid in unusual ways, and how v6t handles them."""
