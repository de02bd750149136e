"""Batches: OpenAI's routes, and what every face needs to make, read, cancel and end them.

A batch is a record in storage and, while it runs, a BatchJob. The record is written first and is enough to create the
BatchJob from; at the end it takes over what the BatchJob knew. `rendering` and `batchjob` are pure.
"""
