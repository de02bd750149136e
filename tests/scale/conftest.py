from fixtures.worker import job

__all__ = ["job"]
