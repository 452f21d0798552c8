"""Clauses of RFCs that a device can be audited with: single frames, short exchanges, a judgement; pure."""
