"""Publish the results of a campaign as a page of the documentation."""
