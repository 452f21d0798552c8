"""From files and flags to one resolved run."""
