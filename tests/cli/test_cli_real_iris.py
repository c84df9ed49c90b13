"""The commands against a real Iris, over its own port."""

import json

from fray_airflow import Entrypoint, JobRequest, ResourceConfig
from fray_airflow.iris import IrisClient


def test_every_command_speaks_to_a_real_controller(command, real_iris_connect):
    """doctor finds it well, explain's outlook comes true, and jobs, logs and cancel do what they say."""
    at = ("--target", real_iris_connect.target)
    well = command("doctor", "--json", *at)
    found = {each["step"]: each for each in json.loads(well.out)["findings"]}
    assert well.code == 0, well.out
    assert found["transport"]["text"].startswith("Connect")
    assert "health page: status ok" in found["server"]["text"]
    assert found["log service"]["result"] == "ok"

    outlook = json.loads(command("explain", "--json", "--tpu", "v5p-16", "--slices", "2", *at).out)["outlook"]
    assert outlook[0].startswith("Today's Iris accepts this and never places it.")
    with IrisClient(real_iris_connect.target) as client:
        never = client.submit(
            JobRequest(
                name="cli-never",
                entrypoint=Entrypoint.from_binary("true"),
                resources=ResourceConfig.with_tpu("v5p-16", slice_count=2),
            )
        )
        said = client.submit(JobRequest(name="cli-said", entrypoint=Entrypoint.from_binary("echo", ["hello"])))
        followed = command("logs", said.job_id, "--follow", *at)
        assert (followed.code, followed.out) == (0, "hello\n"), followed.err
        listed = json.loads(command("jobs", "--json", "--prefix", "cli-", "--state", "pending", *at).out)
        assert [job["job_id"] for job in listed] == [never.job_id]
        cancelled = command("cancel", "--yes", "--json", never.job_id, said.job_id, "/airflow/cli-unknown", *at)
        assert [each["result"] for each in json.loads(cancelled.out)] == ["cancelled", "SUCCEEDED", "unknown"]
        assert cancelled.code == 4
        assert never.wait(60).state.name == "KILLED"
