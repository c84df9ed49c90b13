"""JobRequest: what runs, where its code comes from, and how often Iris may try again."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from fray_airflow.devices import GpuConfig
from fray_airflow.errors import InvalidSpecError
from fray_airflow.resources import MAX_REPLICAS, ResourceConfig
from fray_airflow.results import ResultOptions
from fray_airflow.states import PriorityBand
from fray_airflow.units import parse_duration

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET_NAME = re.compile(r"[A-Za-z0-9_.-]+")

_LARGEST_COUNT = 2**31 - 1

DEFAULT_MAX_RETRIES_PREEMPTION = 100
"""As Fray: preemption is part of life on spot machines, and a job that is preempted did nothing wrong."""


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """What slices wait for before they begin: each other's tasks, so many per slice, for so many seconds."""

    tasks: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Entrypoint:
    """What a replica runs: a command, or a Python function with its arguments. Make it with one of the builders."""

    command: tuple[str, ...] = ()
    function: Callable[..., Any] | None = None
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    result: ResultOptions | None = None
    rendezvous: Rendezvous | None = None

    def __post_init__(self) -> None:
        if isinstance(self.command, str):
            raise InvalidSpecError("Entrypoint", [f"command={self.command!r} is one text; give a list of words"])
        object.__setattr__(self, "command", tuple(self.command))
        if bool(self.command) == (self.function is not None):
            raise InvalidSpecError("Entrypoint", ["give a command or a function, one of them"])
        if not all(isinstance(word, str) for word in self.command):
            raise InvalidSpecError("Entrypoint", [f"command={list(self.command)!r} is not a list of texts"])
        if self.command and not self.command[0].strip():
            raise InvalidSpecError("Entrypoint", [f"command={list(self.command)!r} names no program"])
        if self.function is not None and not callable(self.function):
            raise InvalidSpecError("Entrypoint", [f"function={self.function!r} cannot be called"])

    @staticmethod
    def from_binary(command: str, args: Sequence[str] = ()) -> Entrypoint:
        """Runs `command` directly, without a shell: for pipes or variables give "bash" and ["-c", "..."].

        >>> Entrypoint.from_binary("python", ["train.py"]).command
        ('python', 'train.py')
        """
        _refuse_text("args", args)
        return Entrypoint(command=(command, *args))

    @staticmethod
    def from_callable(
        function: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        result: ResultOptions | None = None,
    ) -> Entrypoint:
        """Runs a Python function in each replica. It is pickled by value at submit; its imports must exist there.

        With `result`, what it returns is sent home; without, only a marked line is.
        """
        _refuse_text("args", args)
        return Entrypoint(function=function, args=tuple(args), kwargs=dict(kwargs or {}), result=result)


def _refuse_text(name: str, value: object) -> None:
    """A text is a sequence too, of its letters."""
    if isinstance(value, str):
        raise InvalidSpecError("Entrypoint", [f"{name}={value!r} is one text; give a list"])


@dataclass(frozen=True, slots=True)
class EnvironmentConfig:
    """Where a replica's code and variables come from. Only recorded here; read and zipped at submit.

    workspace: a folder to ship; relative to the DAG file's folder. docker_image: an image that has the code already.
    files: single files for `$IRIS_WORKDIR`, by name there and path here.
    env_vars: the replica's variables; they win over Iris's own. The Airflow worker's environment is never forwarded.
    secrets: like env_vars, but kept out of every echo and repr.
    extras, pip_packages: for the default setup, `uv sync` with these extras, then `uv pip install`.
    setup_scripts: shell scripts instead of the default setup; [] for none.
    """

    workspace: str | None = None
    docker_image: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    env_vars: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    extras: tuple[str, ...] = ()
    pip_packages: tuple[str, ...] = ()
    setup_scripts: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        faults = [
            *_check_names("env_vars", self.env_vars, _ENV_NAME, "letters, digits and _"),
            *_check_names("secrets", self.secrets, _SECRET_NAME, "letters, digits, _, . and -"),
            *_check_file_names(self.files),
        ]
        if self.workspace and self.docker_image:
            faults.append("workspace and docker_image are both given; ship the code, or use an image that has it")
        for name in ("extras", "pip_packages", "setup_scripts"):
            value = getattr(self, name)
            if value is None and name == "setup_scripts":
                continue
            if not isinstance(value, Sequence) or isinstance(value, str) or not _all_texts(value):
                faults.append(f"{name}={value!r} is not a list of texts")
            else:
                object.__setattr__(self, name, tuple(value))
        if faults:
            raise InvalidSpecError("EnvironmentConfig", faults)


def create_environment(
    workspace: str | None = None,
    docker_image: str | None = None,
    *,
    files: Mapping[str, str] | None = None,
    env_vars: Mapping[str, str] | None = None,
    secrets: Mapping[str, str] | None = None,
    extras: Sequence[str] = (),
    pip_packages: Sequence[str] = (),
    setup_scripts: Sequence[str] | None = None,
) -> EnvironmentConfig:
    """An EnvironmentConfig with Fray's defaults for training: no tokenizer threads, trusted dataset code."""
    defaults = {"HF_DATASETS_TRUST_REMOTE_CODE": "1", "TOKENIZERS_PARALLELISM": "false"}
    return EnvironmentConfig(
        workspace=workspace,
        docker_image=docker_image,
        files=dict(files or {}),
        env_vars={**defaults, **(env_vars or {})},
        secrets=dict(secrets or {}),
        # EnvironmentConfig makes tuples of them, after it has refused what is one text.
        extras=extras,  # type: ignore[arg-type]  # checked and made a tuple there
        pip_packages=pip_packages,  # type: ignore[arg-type]  # checked and made a tuple there
        setup_scripts=setup_scripts,  # type: ignore[arg-type]  # checked and made a tuple there
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """One job, before it has a user.

    name: the last part of the job id `/user/name`; no "/" and no white space.
    replicas: None takes the resources' count.
    processes_per_task: GPU processes per replica; must divide the GPU count.
    max_retries_failure, max_retries_preemption: how often Iris starts one replica again after its program failed, and
        after it lost its machine (0 and 100, as Fray).
    max_task_failures: failed attempts that the whole job outlives. A job with 0, the default, ends at its first
        failure whatever `max_retries_failure` says.
    priority: a PriorityBand, its name or number.
    timeout: the longest run of one attempt. Iris looks about once a minute.
    ports: names; a replica finds the number in `IRIS_PORT_<NAME>`.
    """

    name: str
    entrypoint: Entrypoint
    resources: ResourceConfig = field(default_factory=ResourceConfig)
    environment: EnvironmentConfig | None = None
    replicas: int | None = None
    processes_per_task: int = 1
    max_retries_failure: int = 0
    max_retries_preemption: int = DEFAULT_MAX_RETRIES_PREEMPTION
    max_task_failures: int = 0
    priority: PriorityBand | str | int = PriorityBand.INHERIT
    timeout: timedelta | float | None = None
    ports: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if faults := _check_parts(self):
            raise InvalidSpecError("JobRequest", faults)
        faults = [*_check_job_name(self.name), *_check_counts(self), *_check_processes(self)]
        if self.replicas is None:
            object.__setattr__(self, "replicas", self.resources.replicas)
        faults += _check_ports(self.ports)
        for name, parse in (("priority", PriorityBand.parse), ("timeout", parse_duration)):
            value = getattr(self, name)
            if value is None and name == "timeout":
                continue
            try:
                object.__setattr__(self, name, parse(value))
            except ValueError as error:
                faults.append(f"{name}: {error}")
        if faults:
            raise InvalidSpecError("JobRequest", faults)
        object.__setattr__(self, "ports", tuple(self.ports))

    @property
    def replica_count(self) -> int:
        return self.resources.replicas if self.replicas is None else self.replicas

    @property
    def timeout_seconds(self) -> float | None:
        return None if self.timeout is None else parse_duration(self.timeout).total_seconds()

    @property
    def priority_band(self) -> PriorityBand:
        return PriorityBand.parse(self.priority)


def _check_parts(job: JobRequest) -> list[str]:
    parts = {"entrypoint": Entrypoint, "resources": ResourceConfig, "environment": EnvironmentConfig}
    return [
        f"{name}={value!r} is not of class {kind.__name__}"
        for name, kind in parts.items()
        if not isinstance(value := getattr(job, name), kind) and not (name == "environment" and value is None)
    ]


def _check_job_name(name: object) -> list[str]:
    if not isinstance(name, str) or not name.strip():
        return [f"name={name!r} is not a job name; give text"]
    if "/" in name or re.search(r"\s", name):
        return [f'name={name!r} may not hold "/" or white space; it is one part of the job id /user/name']
    return []


def _check_counts(job: JobRequest) -> list[str]:
    faults = []
    lowest = {"processes_per_task": 1, "max_retries_failure": 0, "max_retries_preemption": 0, "max_task_failures": 0}
    for name, least in lowest.items():
        value = getattr(job, name)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= _LARGEST_COUNT:
            faults.append(f"{name}={value!r} is not a whole number from {least} on")
    count = job.replicas
    if count is not None and (not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MAX_REPLICAS):
        faults.append(f"replicas={count!r} is not a number of replicas; give a whole number from 1 to {MAX_REPLICAS}")
    return faults


def _check_processes(job: JobRequest) -> list[str]:
    processes, device = job.processes_per_task, job.resources.device
    if not isinstance(processes, int) or processes <= 1:
        return []
    if not isinstance(device, GpuConfig):
        return [f"processes_per_task={processes} needs a GPU device; this job's is {device.kind}"]
    if device.count % processes:
        return [f"processes_per_task={processes} does not divide the GPU count {device.count}"]
    return []


def _check_ports(ports: object) -> list[str]:
    if not isinstance(ports, Sequence) or isinstance(ports, str) or not _all_texts(ports):
        return [f"ports={ports!r} is not a list of names"]
    what = "letters, digits, _, . and -"
    faults = [f"ports: {name!r} is not a name; use {what}" for name in ports if not _SECRET_NAME.fullmatch(name)]
    # A replica finds the number in IRIS_PORT_<NAME>.
    if len({name.upper() for name in ports}) < len(ports):
        faults.append(f"ports={list(ports)!r} names one port twice")
    return faults


def _all_texts(values: Sequence[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def _check_names(field_name: str, values: Mapping[str, str], allowed: re.Pattern[str], what: str) -> list[str]:
    faults = []
    for name, value in values.items():
        if not isinstance(name, str) or not allowed.fullmatch(name):
            faults.append(f"{field_name}: {name!r} is not a name; use {what}")
        elif not isinstance(value, str):
            # The value may be a secret: its type says enough.
            faults.append(f"{field_name}: the value of {name} is {type(value).__name__}, not text")
    return faults


def _check_file_names(files: Mapping[str, str]) -> list[str]:
    bad = [
        name
        for name in files
        if not isinstance(name, str) or not name or name.startswith("/") or ".." in name.split("/")
    ]
    return [f"files: {name!r} is not a path inside the work folder" for name in bad]
