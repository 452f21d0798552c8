"""A plugin that cannot be imported."""

raise RuntimeError("this plugin was written for another version")
