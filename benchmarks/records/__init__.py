"""Records of benchmarks: the entries of results.json."""
