"""Tests of what the benchmarks compute, with nothing timed."""
