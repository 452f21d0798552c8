"""The embedded tester: compiled streams over AF_PACKET rings between network namespaces."""
