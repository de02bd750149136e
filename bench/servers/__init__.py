"""Servers to measure clients against, each in a process of its own, on loopback, on one core."""
