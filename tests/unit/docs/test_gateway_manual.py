import re
from pathlib import Path

from batchwright.gateway.settings import parse_settings
from batchwright.gateway.volumes import worker_volumes

MANUAL = Path(__file__).parents[3] / "docs" / "gateway.md"


def test_the_shared_volume_of_the_manual_is_mounted_as_it_says() -> None:
    (text,) = re.findall(r"^```yaml\n(# settings\.yaml: sharedVolume\n.*?)^```$", MANUAL.read_text(), re.M | re.S)
    settings = parse_settings(f"batchPath: s3://batches/\n{text}", "gateway.md")
    _, mounts = worker_volumes(settings, "team-a")
    assert [(mount["mountPath"], mount.get("readOnly", False)) for mount in mounts] == [
        ("/data/tenants/team-a", False),
        ("/data/public", True),
    ]
