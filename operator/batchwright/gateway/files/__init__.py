"""/v1/files: what comes in streams to the tenant's folder, what goes out streams from it, nothing is held in memory.

`multipart`, `form`, `inspection` and `ranges` are pure; `upload` and `content` move bytes between sockets and storage,
where sockets are the event loop's and storage is for threads.
"""
