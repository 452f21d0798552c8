"""Ways to run commands elsewhere: OpenSSH, and the namespaces of this machine."""
