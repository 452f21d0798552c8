"""TRex as tester: an existing installation, its own client in its own interpreter."""
