"""Technologies: one module each, found through the entry point group ``v6t.plugins``."""
