"""Translators in user space behind a TUN device: what their drivers share."""
