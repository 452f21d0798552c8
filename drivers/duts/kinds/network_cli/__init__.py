"""Any device that is configured by lines typed at its own command line."""
