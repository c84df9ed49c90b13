"""The four ways in which Fray's users describe jobs, with this package's imports, submitted to a local Iris."""

import pytest

from fray_airflow import Entrypoint, JobRequest, ResourceConfig, create_environment
from fray_airflow.iris import IrisClient
from fray_airflow.local import Fleet, LocalIris


def my_train_fn():
    print("trained")


@pytest.fixture(scope="module")
def client():
    fleet = Fleet.of(cpu=1, tpu={"v5p-8": 2}, gpu={"A100-80G": 1})
    with LocalIris(fleet) as iris, IrisClient(iris.target) as client:
        yield client


@pytest.fixture
def workspace(tmp_path):
    (tmp_path / "my_proj").mkdir()
    (tmp_path / "my_proj" / "train.py").write_text("import os; print('task', os.environ['IRIS_TASK_ID'])")
    return tmp_path


def finished(handle):
    return handle.wait(30).state.name, [line.text for line in handle.logs()]


def test_a_function_on_cpus_with_a_workspace(client, workspace):
    """with_cpu(cpu=4, ram="16g"), from_callable, create_environment(workspace=...)."""
    resources = ResourceConfig.with_cpu(cpu=4, ram="16g")
    env = create_environment(workspace="my_proj")
    job = JobRequest(
        name="cpu_job", entrypoint=Entrypoint.from_callable(my_train_fn), resources=resources, environment=env
    )
    assert finished(client.submit(job, base=workspace)) == ("SUCCEEDED", ["trained"])


def test_a_command_on_eight_gpus(client, workspace):
    """with_gpu("A100-80G", count=8): one replica, and Fray's default share of the host."""
    resources = ResourceConfig.with_gpu("A100-80G", count=8)
    job = JobRequest(
        name="gpu_job",
        entrypoint=Entrypoint.from_binary("python", ["/app/train.py"]),
        resources=resources,
        environment=create_environment(files={"train.py": "my_proj/train.py"}),
    )
    handle = client.submit(job, base=workspace)
    assert finished(handle) == ("SUCCEEDED", ["task /airflow/gpu_job/0:0"])
    assert client.job_request(handle.job_id).resources.device.gpu.count == 8


def test_a_command_on_two_slices(client, workspace):
    """with_tpu("v5p-8", slice_count=2): replicas are slices x VMs, each on a slice of its own, half of its host."""
    resources = ResourceConfig.with_tpu("v5p-8", slice_count=2)
    job = JobRequest(
        name="tpu_job",
        entrypoint=Entrypoint.from_binary("python", ["/app/train.py"]),
        resources=resources,
        environment=create_environment(workspace="my_proj"),
    )
    handle = client.submit(job, base=workspace)
    state, lines = finished(handle)
    assert (state, sorted(lines)) == ("SUCCEEDED", ["task /airflow/tpu_job/0:0", "task /airflow/tpu_job/1:0"])
    request = client.job_request(handle.job_id)
    assert (request.replicas, request.resources.cpu_millicores) == (2, 104_000)
    assert len({task.worker_id for task in handle.tasks()}) == 2


def test_the_environment_follows_the_device(client):
    """JAX_PLATFORMS and LIBTPU_INIT_ARGS by device, and the author's value wins."""
    job = JobRequest(
        name="env_job",
        entrypoint=Entrypoint.from_binary("bash", ["-c", 'echo "$JAX_PLATFORMS|$LIBTPU_INIT_ARGS"']),
        resources=ResourceConfig.with_tpu("v5p-8"),
        environment=create_environment(env_vars={"JAX_PLATFORMS": "cpu"}),
    )
    assert finished(client.submit(job))[1] == ["cpu|--xla_tpu_scoped_vmem_limit_kib=50000"]
