"""Real local clusters for the demo, the tests and the benchmarks."""
