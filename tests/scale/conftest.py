from fixtures.path_volume import settings, volume
from fixtures.worker import job

__all__ = ["job", "settings", "volume"]
