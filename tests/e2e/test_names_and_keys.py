"""Any legal name, any legal key, and a name that is used again at once."""

from e2e.quickstart import BUCKET, Quickstart, chat_line

ODD = "a b+c%41#d?e&f=g/ü 日本"


def test_keys_are_literal(quickstart: Quickstart) -> None:
    name = quickstart.name("keys")
    uri = quickstart.put(f"in/{ODD}/{name}.jsonl", [chat_line("a")])
    quickstart.apply(name, uri, output={"uri": f"s3://{BUCKET}/out/{ODD}/"})
    status = quickstart.wait(name, "completed")["status"]
    assert status["output"]["uri"] == f"s3://{BUCKET}/out/{ODD}/{name}/results.jsonl"
    assert len(quickstart.lines_at(status["output"]["uri"])) == 1


def test_two_names_of_253_characters_that_differ_at_the_end(quickstart: Quickstart) -> None:
    common = quickstart.name("long") + ".example" * 40
    names = [f"{common[:252]}{end}" for end in ("x", "y")]
    for name in names:
        quickstart.apply(name, quickstart.put(f"in/{name[-100:]}.jsonl", [chat_line(name[-1])]))
    for name in names:
        status = quickstart.wait(name, "completed")["status"]
        assert [line["custom_id"] for line in quickstart.lines_at(status["output"]["uri"])] == [name[-1]]


def test_a_batchjob_deleted_and_recreated_within_a_second(quickstart: Quickstart) -> None:
    name = quickstart.name("again")
    slow = quickstart.put(f"in/{name}-1.jsonl", [chat_line(f"slow-{n}", stub="delay=5") for n in range(50)])
    quickstart.apply(name, slow)
    quickstart.wait(name, "in_progress")
    quickstart.kubectl("delete", "batchjob", name, "--wait=false")
    quickstart.kubectl("wait", "--for=delete", f"batchjob/{name}", "--timeout=30s")
    quickstart.apply(name, quickstart.put(f"in/{name}-2.jsonl", [chat_line("second")]))
    status = quickstart.wait(name, "completed")["status"]
    assert [line["custom_id"] for line in quickstart.lines_at(status["output"]["uri"])] == ["second"]


def test_deleting_a_running_batchjob_takes_its_children_with_it(quickstart: Quickstart) -> None:
    name = quickstart.name("delete")
    quickstart.apply(name, quickstart.put(f"in/{name}.jsonl", [chat_line(f"l-{n}", stub="delay=5") for n in range(50)]))
    uid = quickstart.wait(name, "in_progress")["metadata"]["uid"]
    quickstart.kubectl("delete", "batchjob", name, "--wait", "--timeout=30s")
    quickstart.kubectl(
        "wait", "--for=delete", "jobs,pods", f"--selector=batchwright.dev/batchjob-uid={uid}", "--timeout=90s"
    )
