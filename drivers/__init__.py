"""All input and output: testers, devices under test and the lab of namespaces."""
