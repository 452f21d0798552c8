"""One module per kind of device."""
