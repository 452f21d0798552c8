"""What the operating systems of devices have in common across drivers: links, addresses, routes."""
