"""Regression net: what v6t computes, compared with stored results."""
