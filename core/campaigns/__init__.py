"""Campaigns: many runs that one file describes."""
