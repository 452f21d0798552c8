"""Modifiers of RFC 2544 section 11: classes found through the entry points ``v6t.modifiers``."""
