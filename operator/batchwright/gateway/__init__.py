"""The HTTP face: OpenAI's files and batches, and path-based batches, over BatchJobs and object storage.

No database and no state in memory that another replica would miss: files and batches are records in object storage,
the work is a BatchJob. `settings` and `catalogue` say what is allowed, `identity` who asks, `records` what is kept;
`files`, `batches`, `resource_server` and `models` are the routes, `keeper` ends what has expired, `http` puts it all
together.
"""
