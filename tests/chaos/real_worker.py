"""One worker of the real Iris in its own process. Usage: real_worker.py CONTROLLER_URL NUMBER FOLDER [POLL_SECONDS]

The worker program of marin-iris insists on Docker; this is its Worker with the runtime that starts plain processes.
"""

from __future__ import annotations

import sys
from pathlib import Path

from iris.cluster.bundle import BundleStore
from iris.cluster.runtime.process import ProcessRuntime
from iris.cluster.types import AcceleratorType, CapacityType
from iris.cluster.worker.env_probe import FixedEnvironmentProvider, HardwareProbe, build_worker_metadata
from iris.cluster.worker.port_allocator import PortAllocator
from iris.cluster.worker.worker import Worker, WorkerConfig
from iris.managed_thread import ThreadContainer
from parts import free_port
from rigging.timing import Duration

_GIB = 1024**3


def main() -> None:
    controller, number, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    cache = folder / f"cache-{number}"
    cache.mkdir(exist_ok=True)
    config = WorkerConfig(
        port=free_port(),
        cache_dir=cache,
        controller_address=controller,
        worker_id=f"cpu-{number}-worker-0",
        slice_id=f"cpu-{number}",
        worker_attributes={"scale-group": "cpu"},
        default_task_image="none",
        poll_interval=Duration.from_seconds(float(sys.argv[4]) if len(sys.argv) > 4 else 0.1),
    )
    first_port = 21000 + 1000 * number
    worker = Worker(
        config,
        bundle_store=BundleStore(storage_dir=str(cache / "bundles"), controller_address=controller),
        container_runtime=ProcessRuntime(cache_dir=cache),
        environment_provider=FixedEnvironmentProvider(_machine(number)),
        port_allocator=PortAllocator((first_port, first_port + 1000)),
        threads=ThreadContainer("worker"),
    )
    worker.start()
    worker.wait()


def _machine(number: int):
    hardware = HardwareProbe(
        hostname=f"cpu-{number}",
        ip_address="127.0.0.1",
        cpu_count=64,
        memory_bytes=256 * _GIB,
        disk_bytes=1024 * _GIB,
        gpu_count=0,
        gpu_name="",
        gpu_memory_mb=0,
        tpu_name="",
        tpu_type="",
        tpu_worker_hostnames="",
        tpu_worker_id="",
        tpu_chips_per_host_bounds="",
    )
    return build_worker_metadata(
        hardware,
        accelerator_type=AcceleratorType.CPU,
        capacity_type=CapacityType.ON_DEMAND,
        worker_attributes={"scale-group": "cpu"},
        cpu_millicores=64_000,
    )


if __name__ == "__main__":
    main()
