"""Reports and comparisons written from run directories."""
