"""Reading and writing BatchJobs and their children through the Kubernetes API; the only place that talks to it.

`connection` holds the HTTP side, `errors` the exceptions, the other modules one kind of object each. Objects are plain
JSON as the API server sends it: the caller turns what it needs into its own types.
"""
