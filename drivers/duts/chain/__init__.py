"""Several devices in a row as one."""
