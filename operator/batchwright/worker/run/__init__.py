"""The stage `run`: a worker claims shard after shard and turns each into a committed record.

    claims ──▶ feeder ──▶ queue (bounded by number and bytes) ──▶ senders ──▶ open shards ──▶ segments, shard record

A shard is the unit of commit, the worker is not: while the slow lines of one shard finish, the lines of the next are
sent, so that the server is kept full.
"""
