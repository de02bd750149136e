"""What `make vllm-up` puts on a node, and how pods come to be restarted."""

import json
from pathlib import Path

from hack.vllm.deployment import MANIFESTS, digest, node_links, overlay, put_links
from hack.vllm.installation import Installation


def test_a_node_sees_packages_and_models_under_fixed_names(tmp_path: Path) -> None:
    installation = Installation(tmp_path / "one")
    (installation.model("tiny")).mkdir(parents=True)
    installation.site_packages.mkdir(parents=True)

    put_links(node_links(installation), tmp_path / "node" / "vllm")

    assert (tmp_path / "node" / "vllm" / "models" / "tiny").is_dir()
    assert (tmp_path / "node" / "vllm" / "packages").resolve() == installation.site_packages.resolve()


def test_links_to_an_older_installation_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    put_links({"models": tmp_path / "old"}, tmp_path / "node")
    (tmp_path / "node" / ".models").symlink_to(tmp_path / "old")  # an earlier run was killed half way

    put_links({"models": tmp_path / "new"}, tmp_path / "node")

    assert (tmp_path / "node" / "models").readlink() == tmp_path / "new"
    assert [path.name for path in (tmp_path / "node").iterdir()] == ["models"]


def test_the_overlay_writes_at_the_pods_what_they_are_made_of(tmp_path: Path) -> None:
    made = overlay("abc", tmp_path)

    (resource,) = made["resources"]  # type: ignore[misc]
    assert (tmp_path / resource).resolve() == MANIFESTS
    (patch,) = made["patches"]  # type: ignore[misc]
    assert patch["target"] == {"kind": "Deployment"}
    assert json.loads(patch["patch"]) == [
        {
            "op": "add",
            "path": "/spec/template/metadata/annotations",
            "value": {"batchwright.dev/made-of": "abc"},
        }
    ]


def test_another_installation_or_image_is_another_digest() -> None:
    assert len({digest("a", "b"), digest("a", "c"), digest("c", "b"), digest("ab", "")}) == 4
