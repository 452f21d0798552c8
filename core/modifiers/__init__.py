"""Modifiers of RFC 2544 section 11: a module for each, found through the entry points ``v6t.modifiers``."""
