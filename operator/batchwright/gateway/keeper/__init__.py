"""What happens without being asked: expired files go, ended batches are archived, unfinished uploads are removed.

One replica at a time does it, the holder of a Lease. `due` says what has to be looked at, and is pure; `rounds` does
it; `loop` keeps the Lease. Everything in a round may be done twice, or by two at once, without harm: the Lease saves
work.
"""
