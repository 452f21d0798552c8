"""Trials and their results: what procedures, testers, journals and records share."""
