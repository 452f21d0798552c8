"""The lab of network namespaces that testers and devices share."""
