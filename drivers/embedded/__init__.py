"""The embedded tester: compiled streams over AF_PACKET rings, in namespaces of its own.

Modest rates, real frames, real kernel. Everything it makes lives in anonymous network namespaces
held by child processes that die with v6t, so nothing is left behind whatever happens to it.
"""
