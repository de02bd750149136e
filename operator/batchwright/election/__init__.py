"""Of several processes, the one that holds a Lease works: the operator, and what the gateway does on its own.

`candidate` has the rules and `lease` what is written, both pure; `leadership` keeps a Lease in threads.
"""
