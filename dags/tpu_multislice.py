"""Two TPU slices of two hosts each, a job for each slice, and one program over all four hosts."""

import os
import socket
import time

from airflow.sdk import DAG, task

from fray_airflow import ResourceConfig


def connect(host: str, port: int) -> socket.socket:
    while True:
        try:
            return socket.create_connection((host, port), timeout=60)
        except ConnectionRefusedError:
            time.sleep(0.2)


SLICES = ResourceConfig.with_tpu("v5p-16", slice_count=2)

with DAG("tpu_multislice", schedule=None, tags=["iris"]):

    @task.iris(resource_config=SLICES, slice_strategy="job_per_slice", deferrable=True)
    def train() -> list[str]:
        coordinator = os.environ["FRAY_AIRFLOW_COORDINATOR_ADDRESS"]
        count = int(os.environ["FRAY_AIRFLOW_PROCESS_COUNT"])
        index = int(os.environ["FRAY_AIRFLOW_PROCESS_INDEX"])
        # With JAX it is jax.distributed.initialize(coordinator, count, index). Here a few sockets do the same.
        host, _, port = coordinator.rpartition(":")
        if index > 0:
            with connect(host, int(port)) as call:
                call.sendall(f"process {index} on slice {os.environ['MEGASCALE_SLICE_ID']}".encode())
            return []
        with socket.create_server((os.environ["IRIS_BIND_HOST"], int(port))) as server:
            calls = [server.accept()[0] for _ in range(count - 1)]
            return sorted(call.makefile().read() for call in calls)

    train()
