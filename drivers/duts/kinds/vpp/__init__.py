"""The driver of VPP."""
