"""One session with a device: connect, plan, compare, commit, confirm, roll back, watch."""
