"""The results that the RFCs require, computed from trials, and their reports."""
