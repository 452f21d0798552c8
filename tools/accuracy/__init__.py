"""Measure the accuracy of a tester in front of a device of known behaviour."""
