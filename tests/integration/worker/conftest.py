from fixtures.closing import either_job, proxied_job, small_job
from fixtures.worker import job

__all__ = ["either_job", "job", "proxied_job", "small_job"]
