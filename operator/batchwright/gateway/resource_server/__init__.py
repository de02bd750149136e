"""Path-based batches, as the inference services of research centres have them: a file in, a folder out.

For clients that were written for those. What is asked for are paths on a shared volume, or URIs of objects; the gateway
itself reads and writes none of them: workers do, with the tenant's own credentials and mounts.
"""
