"""Many runs over one grid of settings."""
