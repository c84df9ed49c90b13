"""IrisSubmitJobOperator: one job on Iris as one Airflow task.

What only a running task needs is imported where it is used: a DAG file is parsed every few seconds, and the lifecycle
and the trigger are most of what there is to load.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, cast

from airflow.sdk import BaseOperator, conf
from airflow.sdk.exceptions import AirflowTaskTimeout, TaskDeferralError, TaskDeferralTimeout

from fray_airflow import clock
from fray_airflow.errors import FrayError, InvalidSpecError, IrisError, IrisUnavailableError
from fray_airflow.exceptions import for_airflow
from fray_airflow.from_fray import from_fray
from fray_airflow.hooks import IrisHook
from fray_airflow.hooks.secrets import holds_secret, resolve
from fray_airflow.job import DEFAULT_MAX_RETRIES_PREEMPTION, Entrypoint, EnvironmentConfig
from fray_airflow.links import JOB_URL_KEY, IrisJobLink, job_url
from fray_airflow.operators.checks import LEVELS, argument_faults
from fray_airflow.operators.delivery import asked_options, check_readable, deliver
from fray_airflow.operators.lineage import LineageMethods, with_parent_run
from fray_airflow.operators.observing import observed
from fray_airflow.operators.outlets import tell_outlets
from fray_airflow.operators.per_rung import Render
from fray_airflow.operators.rungs import RungJob, build_rungs
from fray_airflow.operators.spec import is_final
from fray_airflow.plain import to_plain
from fray_airflow.resources import ResourceConfig
from fray_airflow.results import MAX_RESULT_BYTES, ResultOptions
from fray_airflow.task_state import JOB_ID_KEY, JOBS_KEY, LaunchedJobs, aside, read_task_state, worker_kill_was_meant
from fray_airflow.units import parse_duration

if TYPE_CHECKING:
    from airflow.sdk import Context

    from fray_airflow.iris import IrisClient
    from fray_airflow.lifecycle import Action, Finish, LogOptions, Stop
    from fray_airflow.operators.launch import Launch

_CONTACT_INTERVAL = 3.0

_LOG_SECONDS = 1.0
"""For a line in the log while a signal is served: usually a moment."""

_DEFERRAL_SLACK = timedelta(minutes=2)
"""The trigger ends the job at the deadline; Airflow's own timer is there for a trigger that cannot."""


class IrisSubmitJobOperator(LineageMethods, BaseOperator):
    """Runs a job on Iris and returns facts about it and its result.

    A second execution of the same try, and a retry after the worker died, find the job that is there and go on with
    it: there is never a second one. Returns a dict of JSON values: `job_id, state, exit_code, placement, queue_seconds,
    run_seconds, failure_count, preemption_count, chip_seconds, result`. The XCom `job_id` is there as soon as the job
    is. The events of its outlet assets tell the times, the job and the result.

    resource_config: a ResourceConfig, or a dict of its fields or of a builder's arguments (`{"tpu": "v5p-16",
        "slice_count": 2}`), which may hold templates; or a callable `(context, jinja_env)`.
    command: what each replica runs, a list, or one text that is split as a shell would. No shell runs it.
    fallback_resource_configs: other choices of machines. When all replicas of one have not been placed within
        placement_timeout, or Iris has no such machines, its job is ended and the next choice is submitted. What of
        command and environment depends on the choice is written with `per_rung`. The result's `rung` says which ran.
    slice_strategy: for slices of several VMs, which Iris never places as one job: "job_per_slice" launches a gang on
        each slice and treats them as one job, which restarts as a whole within max_retries_failure and
        max_retries_preemption; "single_job" submits one job all the same. None refuses.
    hold_timeout: how long some slices are kept while others are not placed, before all are given back to others. Ten
        minutes: a slice that has to boot takes several.
    slice_rendezvous: with "job_per_slice", start command or function when the tasks of all slices have found each
        other, with the variables MEGASCALE_* and FRAY_AIRFLOW_COORDINATOR_ADDRESS; needs Python in the image. False
        leaves it to the program.
    entrypoint: instead of command, for a Python function: `Entrypoint.from_callable(f)`.
    environment: an EnvironmentConfig or a dict of its fields; relative paths start at the DAG file's folder.
    result: where the result of a command comes from. "line": the last line of replica 0 that starts with
        `FRAY_AIRFLOW_RESULT `, None if there is none. "file": a JSON file that the command pushes with
        `python "$IRIS_WORKDIR/_fray/push_result.py" FILE`; without one the task fails.
    result_from, max_result_bytes: of a pushed file: "first" takes replica 0's, "all" makes a list by replica; and how
        large one may be.
    result_uri: where the job writes its result instead (`FRAY_AIRFLOW_RESULT_URI` tells it), as JSON; this worker reads
        it when the job has ended. For Airflow's ObjectStoragePath: `s3://conn_id@bucket/{{ run_id }}.json`.
    job_name: instead of a name of the task instance's own; must differ between mapped instances.
    wait_for_completion: False returns `job_id` and `state` after submission, and nothing cancels the job later.
    deferrable: wait in the triggerer instead of on a worker.
    poll_interval: seconds between looks at the job; the first looks come sooner.
    placement_timeout: gives up when not all replicas have been placed by then (timedelta or seconds).
    job_timeout: ends an attempt that runs longer. Iris looks about once a minute.
    max_retries_failure, max_retries_preemption, max_task_failures: Iris's own retries, inside one try of this task.
        max_task_failures is raised to what max_retries_failure needs in order to take effect.
    no_retry_exit_codes: a program that ends with one of these fails the task for good, whatever `retries` says.
    secrets: references by name, `{"HF_TOKEN": "conn:hf", "WANDB_API_KEY": "var:wandb"}` (a connection's password, a
        variable); resolved on the worker, and nowhere else than in the request. secrets_as_env sends them as variables
        of the environment too, for an Iris whose workers deliver no secrets; Iris hides those whose names look secret.
    priority_band: "production", "interactive", "batch" or "system"; None leaves it to Iris.
    gpu_gang_level: for several replicas with GPUs, the worker attribute that their hosts must share; None takes the
        connection's, else Fray's choice for the GPU model. Jobs of other kinds do without.
    outage_tolerance: how long the controller may be away before the task fails; the job goes on and the next try
        adopts it. One hour, since an upgrade of a controller takes minutes and a lost watch costs a retry.
    show_logs, log_replica, log_min_level, log_max_lines: which lines of the job the task's log shows: none, one
        replica's, those from a level on ("warning"), so many. A result is found among them all.
    on_kill_action: "terminate" ends the job when the task is marked or cleared; "keep" lets it run.

    marin-fray's own ResourceConfig, Entrypoint and EnvironmentConfig are taken as well.

    Raises the errors of `fray_airflow.errors`, each also an Airflow exception; a faulty spec raises InvalidSpecError
    when the DAG is parsed, or after rendering where it holds templates.
    """

    template_fields: Sequence[str] = (
        "resource_config",
        "fallback_resource_configs",
        "command",
        "environment",
        "job_name",
        "iris_conn_id",
        "placement_timeout",
        "job_timeout",
        "max_retries_failure",
        "max_retries_preemption",
        "max_task_failures",
        "processes_per_task",
        "priority_band",
        "ports",
        "gpu_gang_level",
        "result_uri",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        "resource_config": "json",
        "fallback_resource_configs": "json",
        "command": "bash",
        "environment": "json",
    }
    operator_extra_links = (IrisJobLink(),)
    ui_color = "#dfe9f5"

    first_contact_seconds: ClassVar[float] = 60
    """How long a first try waits for a controller that has not answered at all: long enough for one that restarts."""

    defer_after_seconds: ClassVar[float] = 10
    """How long a deferrable task stays on its worker after submission: a short job ends there, without a triggerer."""

    def __init__(
        self,
        *,
        resource_config: ResourceConfig | Mapping[str, Any] | Callable[..., Any] | str | None = None,
        fallback_resource_configs: Sequence[ResourceConfig | Mapping[str, Any] | Callable[..., Any] | str]
        | None = None,
        slice_strategy: str | None = None,
        hold_timeout: timedelta | float = 600,
        slice_rendezvous: bool = True,
        command: Sequence[str] | str | None = None,
        entrypoint: Entrypoint | None = None,
        environment: EnvironmentConfig | Mapping[str, Any] | None = None,
        result: str = "line",
        result_from: str = "first",
        max_result_bytes: int = MAX_RESULT_BYTES,
        result_uri: str | None = None,
        job_name: str | None = None,
        iris_conn_id: str = IrisHook.default_conn_name,
        wait_for_completion: bool = True,
        deferrable: bool | None = None,
        poll_interval: timedelta | float = 10,
        placement_timeout: timedelta | float | str | None = None,
        job_timeout: timedelta | float | str | None = None,
        max_retries_failure: int | str = 0,
        max_retries_preemption: int | str = DEFAULT_MAX_RETRIES_PREEMPTION,
        max_task_failures: int | str | None = None,
        processes_per_task: int | str = 1,
        priority_band: str | None = None,
        ports: Sequence[str] = (),
        gpu_gang_level: str | None = None,
        secrets: Mapping[str, str] | None = None,
        secrets_as_env: bool = False,
        no_retry_exit_codes: Sequence[int] = (),
        show_logs: bool = True,
        log_replica: int | None = None,
        log_min_level: str | None = None,
        log_max_lines: int | None = None,
        outage_tolerance: timedelta | float = 3600,
        on_kill_action: str = "terminate",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        entrypoint, environment = from_fray(entrypoint), from_fray(environment)
        self._entrypoint = entrypoint if entrypoint is not None and entrypoint.function is not None else None
        self._given_result = entrypoint.result if entrypoint is not None else None
        # Values that the author's code made stay out of every attribute that Airflow shows or stores.
        self._secrets = dict(environment.secrets) if isinstance(environment, EnvironmentConfig) else {}
        self.secrets = dict(secrets or {})
        self.secrets_as_env = secrets_as_env
        self.no_retry_exit_codes = tuple(no_retry_exit_codes)
        self.resource_config = to_plain(resource_config)
        self.fallback_resource_configs = to_plain(fallback_resource_configs)
        self.slice_strategy = slice_strategy
        self.hold_timeout = hold_timeout
        self.slice_rendezvous = slice_rendezvous
        self.command = list(entrypoint.command) if entrypoint is not None and entrypoint.command else command
        self.environment = to_plain(environment)
        self.result = result
        self.result_from = result_from
        self.max_result_bytes = max_result_bytes
        self.result_uri = result_uri
        self.job_name = job_name
        self.iris_conn_id = iris_conn_id
        self.wait_for_completion = wait_for_completion
        self.deferrable = _default_deferrable() if deferrable is None else deferrable
        self.poll_interval = poll_interval
        self.placement_timeout = placement_timeout
        self.job_timeout = job_timeout
        self.max_retries_failure = max_retries_failure
        self.max_retries_preemption = max_retries_preemption
        self.max_task_failures = max_task_failures
        self.processes_per_task = processes_per_task
        self.priority_band = priority_band
        self.ports = ports
        self.gpu_gang_level = gpu_gang_level
        self.show_logs = show_logs
        self.log_replica = log_replica
        self.log_min_level = log_min_level
        self.log_max_lines = log_max_lines
        self.outage_tolerance = outage_tolerance
        self.on_kill_action = on_kill_action
        self.job_url = ""
        self._launch: Launch | None = None
        self._check(entrypoint, command)

    def execute(self, context: Context) -> Any:
        from fray_airflow.lifecycle import Stop

        with observed(self, context["ti"]):
            try:
                return self._execute(context)
            except FrayError as error:
                self._fail(error)
            except AirflowTaskTimeout:
                # Airflow's timer calls on_kill as an eviction does, while the task is running. This one means the job.
                self._end(Stop.DEADLINE)
                raise

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Goes on where the trigger ended."""
        from fray_airflow.lifecycle import Stop

        self.job_url = event.get("job_url", "")
        with observed(self, context["ti"], event):
            if "error" in event:
                self._fail(IrisError.from_json(event["error"]))
            self._remember(context)
            try:
                if "launch" in event:
                    # The trigger has to submit, and only a worker can: it launches, and defers again.
                    return self._execute(context, resumed=event["launch"])
                return self._returned(event["result"])
            except FrayError as error:
                self._fail(error)
            except AirflowTaskTimeout:
                self._end(Stop.DEADLINE)
                raise

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Airflow comes back here when a trigger crashed or outlived its time too. Without a next try, the job ends."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except (TaskDeferralError, TaskDeferralTimeout):
            if context["ti"].try_number > context["ti"].max_tries:
                self._end_deferred(context["ti"])
            raise

    def dry_run(self) -> None:
        """Prints what `fray-airflow explain` prints of this task. Asks neither Iris nor Airflow for anything."""
        from fray_airflow.operators.explain import print_explanation

        try:
            print_explanation(self)
        except FrayError as error:
            raise for_airflow(error) from None

    def on_kill(self) -> None:
        """Ends the job if somebody asked for it, and leaves it to the next try if only this worker goes away."""
        launch = self._launch
        if launch is None or launch.talk.is_interrupted or not self.wait_for_completion:
            return
        from fray_airflow.lifecycle import Stop
        from fray_airflow.operators.launch import HURRY_SECONDS

        state = read_task_state(self._ti)
        if worker_kill_was_meant(state) and self.on_kill_action == "terminate":
            jobs = ", ".join(launch.talk.live_jobs())
            aside(lambda: self.log.warning("The task is %s: terminating %s", state, jobs), _LOG_SECONDS)
            aside(lambda: launch.end(Stop.KILLED), HURRY_SECONDS + _LOG_SECONDS)
        else:
            launch.leave()
            known = state or "in an unknown state"
            aside(lambda: self.log.warning("This worker stops (the task is %s); the job goes on.", known), _LOG_SECONDS)

    def _remember(self, context: Context) -> None:
        self._ti = context["ti"]
        self._outlet_events = context.get("outlet_events")

    def _execute(self, context: Context, resumed: Mapping[str, Any] | None = None) -> Any:
        from fray_airflow.operators.launch import Launch
        from fray_airflow.operators.planning import deadline_of, identity_of, plan_launch

        self._remember(context)
        hook = IrisHook(self.iris_conn_id)
        settings, client = hook.settings(), hook.get_conn()
        secrets = self._resolved_secrets()
        rungs = with_parent_run(self._build_rungs(secrets, self._renderer(context)), self, self._ti)
        job, asked = rungs[0].job, self._asked_result()
        check_readable(asked)
        plan = plan_launch(
            rungs,
            identity_of(context, settings, self._first_contact(client)),
            job_name=self.job_name,
            retries=self.retries or 0,
            max_tries=self._ti.max_tries,
            end_orphans=self.wait_for_completion and self.on_kill_action == "terminate",
            poll_interval=parse_duration(self.poll_interval).total_seconds(),
            placement_timeout=_seconds(self.placement_timeout),
            hold_timeout=parse_duration(self.hold_timeout).total_seconds(),
            slice_failures=int(self.max_retries_failure),
            slice_preemptions=int(self.max_retries_preemption),
            logs=self._log_options(),
            result=asked.awaited if asked is not None else "none",
            result_of="command" if self._entrypoint is None else "function",
            deadline=deadline_of(context, self.execution_timeout),
            outage_tolerance=parse_duration(self.outage_tolerance).total_seconds(),
        )
        if job.max_retries_failure:
            self.log.info(
                "Iris may run each replica again %d times after a failure; the job outlives %d failed attempts.",
                job.max_retries_failure,
                job.max_task_failures,
            )
        base = Path(context["dag"].fileloc).parent
        self._launch = launch = Launch(
            hook,
            rungs,
            plan,
            base=base,
            tell=self._tell,
            publish=lambda job_ids: self._publish(job_ids, settings.dashboard_url),
            resumed=resumed,
        )
        if not self.wait_for_completion:
            end = launch.run(leave=lambda _: bool(launch.job_id))
            if end is None:
                facts = {JOB_ID_KEY: launch.job_id, "state": client.job_status(launch.job_id).state.name}
                tell_outlets(self.outlets, self._outlet_events, facts)
                return facts
            return self._result(end)
        end = launch.run(leave=self._leaves_for_triggerer(launch, secrets))
        if end is None:
            self._defer(launch)
        return self._result(end)

    def _renderer(self, context: Context) -> Render:
        """For what had to wait until the rung is known."""
        return lambda text, more: self.render_template(
            text, cast("Context", {**context, **more}), self.get_template_env()
        )

    def _first_contact(self, client: IrisClient) -> str:
        """Whom the controller takes us for. A controller that restarts is waited for; a first try may have a wrong
        address, and should say so soon."""
        first_try = self._ti.try_number == 1
        patience = self.first_contact_seconds if first_try else parse_duration(self.outage_tolerance).total_seconds()
        until = clock.monotonic() + patience
        while True:
            try:
                return client.user()
            except IrisUnavailableError as error:
                if clock.monotonic() > until:
                    raise
                self.log.warning("%s Trying again for up to %.0f s.", error, until - clock.monotonic())
                clock.sleep(min(_CONTACT_INTERVAL, max(0.0, until - clock.monotonic())))

    def _leaves_for_triggerer(self, launch: Launch, secrets: Mapping[str, str]) -> Callable[[Action], bool]:
        from fray_airflow.lifecycle import Wait

        latest = clock.monotonic() + self.defer_after_seconds

        def leaves(action: Action) -> bool:
            watching = isinstance(action, Wait) and launch.talk.seen.finished_at is None
            due = self.deferrable and watching and clock.monotonic() > latest
            # A deferral is stored, with the line that is the result so far.
            return due and not holds_secret(launch.talk.seen.result, secrets)

        return leaves

    def _defer(self, launch: Launch) -> NoReturn:
        from fray_airflow.triggers.job import IrisJobTrigger

        self.defer(
            trigger=IrisJobTrigger(
                iris_conn_id=self.iris_conn_id,
                launch=launch.talk.to_json(),
                on_kill_action=self.on_kill_action,
                job_url=self.job_url,
                secrets=self.secrets,
            ),
            method_name=self.execute_complete.__name__,
            timeout=None if self.execution_timeout is None else self.execution_timeout + _DEFERRAL_SLACK,
        )
        raise AssertionError("defer raises")

    def _result(self, end: Finish) -> Any:
        if end.error is not None:
            raise end.error
        return self._returned(dict(end.result or {}))

    def _returned(self, facts: dict[str, Any]) -> Any:
        """What the task returns of the facts of its job; a pushed result is still in its envelope."""
        facts = deliver(facts, self._asked_result(), self._resolved_secrets())
        tell_outlets(self.outlets, self._outlet_events, facts)
        return facts

    def _asked_result(self) -> ResultOptions | None:
        return asked_options(self, self._given_result)

    def _resolved_secrets(self) -> dict[str, str]:
        return {**resolve(self.secrets), **self._secrets}

    def _fail(self, error: FrayError) -> NoReturn:
        final = getattr(error, "exit_code", None) in self.no_retry_exit_codes
        raise for_airflow(error, final=final) from error.__cause__

    def _end(self, stop: Stop) -> None:
        if self._launch is not None and self.wait_for_completion:
            self._launch.end(stop)

    def _end_deferred(self, ti: Any) -> None:
        from fray_airflow.operators.launch import HURRY_SECONDS

        launched = LaunchedJobs.from_json(ti.xcom_pull(task_ids=ti.task_id, key=JOBS_KEY, map_indexes=ti.map_index))
        for job_id in launched.job_ids if launched is not None else ():
            self.log.warning("No try comes after this one: terminating %s", job_id)
            try:
                with IrisHook(self.iris_conn_id).get_conn().hurried(HURRY_SECONDS) as client:
                    client.terminate(job_id)
            except FrayError as error:
                self.log.warning("%s may still run: %s", job_id, error)

    def _publish(self, job_ids: Sequence[str], dashboard_url: str | None) -> None:
        """The ids and the link, as early as they exist."""
        if self._launch is None:
            return
        job_id, token = job_ids[0], self._launch.talk.plan.job.token
        ends_on_kill = self.wait_for_completion and self.on_kill_action == "terminate"
        launched = LaunchedJobs(self.iris_conn_id, tuple(job_ids), token, ends_on_kill)
        self._ti.xcom_push(key=JOB_ID_KEY, value=job_id)
        self._ti.xcom_push(key=JOBS_KEY, value=launched.to_json())
        if dashboard_url:
            self.job_url = job_url(dashboard_url, job_id)
            self._ti.xcom_push(key=JOB_URL_KEY, value=self.job_url)

    def _log_options(self) -> LogOptions:
        from fray_airflow.lifecycle import LogOptions

        level = logging.NOTSET if self.log_min_level is None else LEVELS[self.log_min_level.lower()]
        return LogOptions(self.show_logs, self.log_replica, level, self.log_max_lines)

    def _tell(self, level: int, text: str) -> None:
        self.log.log(level, "%s", text)

    def _build_rungs(self, secrets: Mapping[str, str], render: Render) -> list[RungJob]:
        # Again: templates are rendered now.
        if faults := argument_faults(self):
            raise InvalidSpecError("IrisSubmitJobOperator", faults)
        return build_rungs(self, render, secrets)

    def _check(self, entrypoint: Entrypoint | None, command: Any) -> None:
        """What can be known when the DAG is parsed; templates are checked after they are rendered."""
        faults = []
        if entrypoint is not None and command is not None:
            faults.append("command and entrypoint are both given; one decides")
        faults.extend(argument_faults(self))
        if faults:
            raise for_airflow(InvalidSpecError(f"IrisSubmitJobOperator {self.task_id!r}", faults))
        # Not self's: a subclass may render more, such as the arguments of a function, which the spec does not need.
        if all(is_final(getattr(self, name)) for name in IrisSubmitJobOperator.template_fields):
            try:
                self._build_rungs({}, lambda text, _: text)
            except FrayError as error:
                raise for_airflow(error) from None


@cache
def _default_deferrable() -> bool:
    """Read once: it takes a tenth of the time of making an operator."""
    return bool(conf.getboolean("operators", "default_deferrable", fallback=False))


def _seconds(value: timedelta | float | str | None) -> float | None:
    return None if value is None else parse_duration(value).total_seconds()
