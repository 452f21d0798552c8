"""Measure the error of a tester in front of devices of known behaviour."""
