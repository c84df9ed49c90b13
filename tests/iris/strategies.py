"""Valid specs, made up by hypothesis. Everything here must be accepted."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

from fray_airflow import ANY_REGION, Entrypoint, EnvironmentConfig, JobRequest, ResourceConfig
from fray_airflow.resources import CONTAINER_PROFILES, MAX_REPLICAS
from fray_airflow.states import PriorityBand
from fray_airflow.tpu import TPU_TOPOLOGIES

GPU_MODELS = (
    "A10",
    "A100-40G",
    "A100-80G",
    "A10G",
    "B100",
    "H100",
    "H200",
    "L4",
    "T4",
    "V100",
    "auto",
    "GB200",
    "GB300",
)

CORES = st.one_of(
    st.integers(1, 2_147_483),
    st.floats(0.001, 2_147_483),
    st.sampled_from([0.001, 0.1, 0.29, 1.005, 2.01, 3.999, 4.0005]),
)
SIZES = st.one_of(
    st.builds(
        "{}{}{}".format,
        st.integers(1, 8191),
        st.sampled_from(["m", "g", "t", "M", "G", "T"]),
        st.sampled_from(["", "b", "B", "iB"]),
    ),
    st.builds("{:.2f}g".format, st.floats(0.01, 10_000)),
    st.builds(str, st.integers(2**20, 2**62)),
)
NAMES = st.text("abcXYZ019- ", min_size=1, max_size=12).filter(str.strip)
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)


@st.composite
def resource_configs(draw: st.DrawFn, kinds: tuple[str, ...] = ("cpu", "gpu", "tpu")) -> ResourceConfig:
    """A ResourceConfig as one of the builders makes it, with any of the overrides."""
    overrides: dict[str, Any] = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "cpu": CORES,
                "ram": SIZES,
                "disk": SIZES,
                "preemptible": st.booleans(),
                "regions": st.one_of(
                    st.just([ANY_REGION]), st.lists(NAMES, max_size=3), st.lists(NAMES, max_size=3).map(tuple)
                ),
                "zone": NAMES,
                "target_cluster": NAMES,
                "image": NAMES,
                "container_profile": st.sampled_from(CONTAINER_PROFILES),
            },
        )
    )
    kind = draw(st.sampled_from(kinds))
    if kind == "tpu":
        first = draw(st.sampled_from(sorted(TPU_TOPOLOGIES)))
        others = draw(st.lists(st.sampled_from(_alike(first)), max_size=2, unique=True))
        slices = draw(st.integers(1, MAX_REPLICAS // TPU_TOPOLOGIES[first].vm_count).filter(lambda count: count > 0))
        return ResourceConfig.with_tpu([first, *others], slice_count=slices, **overrides)
    overrides["replicas"] = draw(st.one_of(st.integers(1, 64), st.integers(1, MAX_REPLICAS)))
    if kind == "gpu":
        overrides["device_alternatives"] = draw(st.lists(st.sampled_from(GPU_MODELS), max_size=2))
        model, count = draw(st.sampled_from(GPU_MODELS)), draw(st.integers(1, 16))
        return ResourceConfig.with_gpu(model, count, **overrides)
    return ResourceConfig.with_cpu(**overrides)


@st.composite
def job_requests(draw: st.DrawFn) -> JobRequest:
    """A JobRequest with a command."""
    resources = draw(resource_configs())
    count = getattr(resources.device, "count", 1)
    return JobRequest(
        name=draw(st.text(st.characters(exclude_categories=("Cs", "Z", "C"), exclude_characters="/"), min_size=1)),
        entrypoint=Entrypoint.from_binary(draw(TEXTS.filter(str.strip)), draw(st.lists(TEXTS, max_size=3))),
        resources=resources,
        environment=draw(st.none() | environments()),
        replicas=draw(st.none() | st.integers(1, MAX_REPLICAS)),
        processes_per_task=draw(st.sampled_from([n for n in range(1, count + 1) if count % n == 0])),
        max_retries_failure=draw(st.integers(0, 2**31 - 1)),
        max_retries_preemption=draw(st.integers(0, 2**31 - 1)),
        max_task_failures=draw(st.integers(0, 2**31 - 1)),
        priority=draw(st.sampled_from(list(PriorityBand))),
        timeout=draw(st.none() | st.timedeltas(timedelta(microseconds=1))),
        ports=draw(st.lists(st.text("abX0_-", min_size=1), max_size=3, unique_by=str.upper)),
    )


def environments() -> st.SearchStrategy[EnvironmentConfig]:
    variables = st.dictionaries(st.text("ABCxyz_", min_size=1, max_size=6), TEXTS, max_size=3)
    return st.builds(
        EnvironmentConfig,
        env_vars=variables,
        secrets=variables,
        extras=st.lists(TEXTS, max_size=2),
        pip_packages=st.lists(TEXTS, max_size=2),
        setup_scripts=st.none() | st.lists(TEXTS, max_size=2),
    )


def _alike(name: str) -> list[str]:
    shape = TPU_TOPOLOGIES[name][3:]
    return sorted(each.name for each in TPU_TOPOLOGIES.values() if each[3:] == shape)


__all__ = ["GPU_MODELS", "environments", "job_requests", "resource_configs"]
