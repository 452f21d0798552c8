"""Steps that all drivers of an operating system share: links, addresses, routes."""
