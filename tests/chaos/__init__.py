"""Chaos: random kills while BatchJobs run, and what must hold all the same. See docs/reliability.md."""
