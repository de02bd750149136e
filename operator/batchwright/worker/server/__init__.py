"""What the worker knows of the model server, and how it paces itself by that.

`concurrency`: how many requests may be in flight.
"""
