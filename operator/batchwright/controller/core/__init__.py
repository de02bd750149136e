"""The decisions of the controller, without I/O: `reconcile(observed, now, settings)` gives a `Plan` of actions.

One file a policy. `reconcile` asks the stage that a BatchJob is in (validating, running, finalizing, stopping) for a
`Step`, and composes conditions, counts, timestamps and Events from it in one place.
"""
