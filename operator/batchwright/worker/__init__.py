"""The three stages of a run: plan, run, merge. In pods they are `batchwright-worker`, locally `batchwright run`."""
