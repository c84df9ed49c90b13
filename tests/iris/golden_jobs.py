"""The jobs whose requests are kept as text in `golden/`: one for every builder and option."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from google.protobuf import text_format

from fray_airflow import ANY_REGION, Entrypoint, EnvironmentConfig, JobRequest, ResourceConfig, create_environment
from fray_airflow.iris import build_launch_request
from fray_airflow.iris._gen.controller_pb2 import Controller
from fray_airflow.iris.launch import RECREATE

FOLDER = Path(__file__).parent / "golden"

_TRAIN = Entrypoint.from_binary("python", ["-m", "train", "--steps=10"])


def _request(resources: ResourceConfig, *, build: dict[str, Any] | None = None, **fields: Any) -> Any:
    job = JobRequest(**{"name": "train", "entrypoint": _TRAIN, "resources": resources, **fields})
    return build_launch_request(job, user="me", **(build or {}))


_CPU = ResourceConfig.with_cpu(cpu=4, ram="16g", disk="1t")


def requests() -> dict[str, Controller.LaunchJobRequest]:
    """Every golden request by the name of its file."""
    with_gpu, with_tpu, with_cpu = ResourceConfig.with_gpu, ResourceConfig.with_tpu, ResourceConfig.with_cpu
    return {
        "defaults": _request(ResourceConfig()),
        "cpu": _request(_CPU),
        "cpu_fraction": _request(with_cpu(cpu=2.01, ram="1.5GiB", disk="512m")),
        "gpu": _request(with_gpu("H100")),
        "gpu_gang": _request(with_gpu("H100", 8, cpu=64, ram="512g", replicas=4)),
        "gpu_gang_rack": _request(with_gpu("GB200", 4, replicas=16)),
        "gpu_gang_racks": _request(with_gpu("GB200", 4, replicas=32)),
        "gpu_gang_named_level": _request(with_gpu("H100", 8, replicas=2), build={"gpu_gang_level": "pool"}),
        "gpu_alternatives": _request(with_gpu("H100", 8, device_alternatives=["H200", "A100-80G"])),
        "gpu_processes": _request(with_gpu("H100", 8), processes_per_task=4),
        "tpu_one_vm": _request(with_tpu("v6e-8")),
        "tpu_many_vms": _request(with_tpu("v5p-16")),
        "tpu_slices_of_one_vm": _request(with_tpu("v5p-8", slice_count=2)),
        "tpu_slices_of_many_vms": _request(with_tpu("v5litepod-16", slice_count=2)),
        "tpu_alternatives": _request(with_tpu(["v5p-8", "v4-8", "v6e-4"])),
        "tpu_overrides": _request(with_tpu("V5E-4", cpu=2, ram="8g", disk="100g")),
        "region": _request(with_cpu(regions=["us-east5"])),
        "regions": _request(with_cpu(regions=["us-east5", "europe-west4"])),
        "any_region": _request(with_cpu(regions=[ANY_REGION])),
        "on_demand": _request(with_cpu(preemptible=False)),
        "zone": _request(with_cpu(zone="us-east5-a")),
        "target_cluster": _request(with_cpu(target_cluster="peer")),
        "every_constraint": _request(
            with_tpu(
                ["v5p-8", "v4-8"], preemptible=False, regions=["us-east5"], zone="us-east5-a", target_cluster="peer"
            )
        ),
        "image": _request(with_cpu(image="example.com/train:1")),
        "docker_image": _request(_CPU, environment=EnvironmentConfig(docker_image="example.com/train:2")),
        "container_profile": _request(with_cpu(container_profile="privileged")),
        "environment": _request(
            _CPU,
            environment=create_environment(
                "code", env_vars={"WANDB_MODE": "offline"}, secrets={"HF_TOKEN": "hunter2"}, extras=["gpu", "dev"]
            ),
            build={"env": {"FRAY_AIRFLOW_LAUNCH": "token"}, "bundle": b"PK", "files": {"conf.yaml": b"lr: 0.1\n"}},
        ),
        "environment_scripts": _request(_CPU, environment=EnvironmentConfig(setup_scripts=["make deps", " "])),
        "environment_packages": _request(_CPU, environment=EnvironmentConfig(pip_packages=["numpy>=2", "a b"])),
        "environment_over_device": _request(
            with_tpu("v6e-4"), environment=create_environment(env_vars={"JAX_PLATFORMS": "tpu"})
        ),
        "ports": _request(_CPU, ports=["http", "grpc-x"]),
        **{f"priority_{band}": _request(_CPU, priority=band) for band in ("production", "batch", "inherit")},
        "budgets": _request(_CPU, max_retries_failure=2, max_retries_preemption=3, max_task_failures=4),
        "timeout": _request(_CPU, timeout=timedelta(hours=1, milliseconds=1)),
        "timeout_tiny": _request(_CPU, timeout=timedelta(microseconds=1)),
        "replicas": _request(with_tpu("v5p-16"), replicas=4),
        "recreate": _request(_CPU, build={"existing_job_policy": RECREATE}),
    }  # fmt: skip


def as_text(request: Controller.LaunchJobRequest) -> str:
    return text_format.MessageToString(request)


def kept() -> dict[str, str]:
    """What is in the folder."""
    return {path.stem: path.read_text() for path in FOLDER.glob("*.txtpb")}
