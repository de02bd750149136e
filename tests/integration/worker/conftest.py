from fixtures.closing import either_job, proxied_job, small_job
from fixtures.resubmission import failing
from fixtures.worker import job

__all__ = ["either_job", "failing", "job", "proxied_job", "small_job"]
