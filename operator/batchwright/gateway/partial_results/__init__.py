"""Results of a batch while it runs, beyond OpenAI: the finished lines of each shard as soon as it is committed.

Shards end in no order, so a place in the results is no number: it is the set of shards that a client has, and how far
it is in one more (`cursor`). `shards` finds what is committed, `page` reads lines, `routes` is the HTTP side.
"""
