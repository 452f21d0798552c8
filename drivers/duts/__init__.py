"""Devices under test: how they are configured, proved, emptied, watched and put back."""
