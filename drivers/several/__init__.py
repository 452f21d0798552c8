"""Several testers as one: shares of the traffic, started together, counted together."""
