"""The controller's state and its loop: launches, ends, placement, stopping and freeing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fray_airflow.iris._gen import controller_pb2, job_pb2

from . import admission, scheduler, transitions
from .access import Caller
from .endpoints import Endpoints
from .fleet import Fleet
from .logs import LogStore
from .runner import Exit, Run, Runner, ScriptedRunner
from .script import Outcome, Script
from .submission import Submission, submission_of
from .table import PENDING, Attempt, Job, Table, Task
from .timing import Timing
from .transitions import End
from .wire_error import WireError
from .workers import Need, Worker, Workers


class Draining(Exception):
    """A job cannot be replaced yet: processes of its last run are still there."""


@dataclass
class _Stopping:
    worker_id: str
    since: float
    gone: bool = False


class Engine:
    """Not thread-safe: whoever calls holds the cluster's lock."""

    def __init__(
        self,
        fleet: Fleet,
        clock: Callable[[], float],
        timing: Timing,
        processes: Callable[[LogStore], Runner] | None,
    ) -> None:
        self._clock = clock
        self._timing = timing
        self.table = Table()
        self.endpoints = Endpoints(self.table, self.now_ms)
        self.workers = Workers(fleet, self.now_ms())
        self.logs = LogStore(clock, timing.log_delay_seconds)
        self.script = Script()
        self.submissions: list[Submission] = []
        self.scheduler_error: Exception | None = None
        self._blobs: dict[str, bytes] = {}
        self._scripted = ScriptedRunner(self.logs)
        self._processes = processes(self.logs) if processes else None
        self._runs: dict[str, Run] = {}
        self._stopping: dict[str, _Stopping] = {}
        self._next_sweep = clock()

    def now_ms(self) -> int:
        return int(self._clock() * 1000)

    def launch(
        self, request: controller_pb2.Controller.LaunchJobRequest, caller: Caller, *, force: bool, task_id: str = ""
    ) -> str:
        """`task_id` is the Airflow task that submits, where it is known.

        Raises Draining until an existing job can be replaced, unless forced. May be called again after that."""
        admitted = admission.admit(request, caller, self.table, self.workers)
        existing = self.table.get(admitted.name.job_id)
        if existing is not None:
            if self._is_kept(existing, request.existing_job_policy):
                return existing.job_id
            if self._is_draining(existing) and not force:
                raise Draining(existing.job_id)
        files = admission.store(admitted, self._blobs)
        if existing is not None:
            self.endpoints.forget([existing, *self.table.descendants(existing)])
            self.table.remove(existing)
        job = admission.record(admitted, files, self.table.next_submitted_ms(self.now_ms()))
        self.table.add(job)
        self.submissions.append(submission_of(request, job.job_id, task_id))
        self.script.submitted(job.job_id, job.submitted_ms, task_id, self._clock())
        return job.job_id

    def terminate(self, job: Job) -> None:
        self.endpoints.forget([job, *self.table.descendants(job)])
        self._apply(job, transitions.terminate(job, "Terminated by user", self.now_ms()))

    def preempt(self, job: Job, task: Task, by: str) -> None:
        """Take a running task's VM away; its gang goes along."""
        end = End(job_pb2.TASK_STATE_PREEMPTED, error=f"Preempted by {by}", process_ended=False)
        self._apply(job, transitions.end_attempt(job, task, end, self.now_ms()))

    def lose_worker(self, worker: Worker) -> None:
        """The VM dies now; the controller notices after its grace period."""
        worker.lost_ms = self.now_ms()
        for uid in list(worker.held):
            self._stop_process(uid)

    def close(self) -> None:
        if self._processes is not None:
            self._processes.close()

    def tick(self) -> None:
        self._collect()
        self._notice_lost_workers()
        self._free_drained()
        self._sweep()
        self._advance()
        self._schedule()

    def _collect(self) -> None:
        exits, events = self._scripted.poll(self._clock())
        if self._processes is not None:
            exits += self._processes.poll()
        for exit_ in exits:
            self._on_exit(exit_)
        for event in events:
            run = self._runs.get(event.uid)
            if run is not None and run.task.is_active and run.task.current is run.attempt:
                self._play(run, event.outcome)

    def _play(self, run: Run, outcome: Outcome) -> None:
        match outcome.kind:
            case "preempt":
                self.preempt(run.job, run.task, outcome.by)
            case "kill":
                self.terminate(run.job)
            case "lose_worker":
                worker = self.workers.get(run.attempt.worker_id)
                if worker is not None:
                    self.lose_worker(worker)

    def _on_exit(self, exit_: Exit) -> None:
        run = self._runs.get(exit_.uid)
        if run is None:
            return
        if exit_.uid in self._stopping:
            self._stopping[exit_.uid].gone = True
            return
        worker = self.workers.get(run.attempt.worker_id)
        if worker is not None and worker.lost_ms is not None:
            # Nobody is left on a dead VM to report how its processes ended.
            return
        self._forget(exit_.uid)
        end = End.of_exit(exit_.exit_code, exit_.error)
        self._apply(run.job, transitions.end_attempt(run.job, run.task, end, self.now_ms()))

    def _notice_lost_workers(self) -> None:
        grace_ms = self._timing.worker_grace_seconds * 1000
        for worker in list(self.workers):
            if worker.lost_ms is not None and self.now_ms() >= worker.lost_ms + grace_ms:
                self._remove(worker)
        self.workers.register_replacements(self.now_ms())

    def _remove(self, worker: Worker) -> None:
        error = f"Worker {worker.worker_id} failed: worker reconcile failure threshold exceeded"
        end = End(job_pb2.TASK_STATE_WORKER_FAILED, error=error)
        runs = [self._runs[uid] for uid in worker.held if uid in self._runs]
        for run in runs:
            self._stopping.pop(run.uid, None)
            self._forget(run.uid)
            run.attempt.finished_ms = self.now_ms()
            if run.task.is_active and run.task.current is run.attempt:
                self._apply(run.job, transitions.end_attempt(run.job, run.task, end, self.now_ms()))
        self.workers.remove(worker, self.now_ms() + int(self._timing.boot_seconds * 1000))
        for job in self.table:
            for attempt in (attempt for task in job.tasks for attempt in task.attempts):
                if attempt.worker_id == worker.worker_id:
                    attempt.worker_id = ""

    def _free_drained(self) -> None:
        now = self._clock()
        for uid, stopping in list(self._stopping.items()):
            if stopping.gone and now >= stopping.since + self._timing.drain_seconds:
                self._runs[uid].attempt.finished_ms = self.now_ms()
                del self._stopping[uid]
                self._forget(uid)

    def _sweep(self) -> None:
        now_ms = self.now_ms()
        for job in self.table:
            timeout_ms = job.request.scheduling_timeout.milliseconds
            if timeout_ms and not job.is_terminal and now_ms >= job.submitted_ms + timeout_ms:
                self._apply(job, transitions.give_up_scheduling(job, timeout_ms / 1000, now_ms))
        if self._clock() >= self._next_sweep:
            self._next_sweep = self._clock() + self._timing.sweep_seconds
            self._end_overdue(now_ms)

    def _end_overdue(self, now_ms: int) -> None:
        end = End(job_pb2.TASK_STATE_FAILED, error="Execution timeout exceeded", retryable=False, process_ended=False)
        for job in self.table:
            timeout_ms = job.request.timeout.milliseconds
            for task in job.tasks if timeout_ms else []:
                started_ms = task.current.started_ms if task.current and task.is_active else None
                if started_ms is not None and now_ms >= started_ms + timeout_ms:
                    self._apply(job, transitions.end_attempt(job, task, end, now_ms))

    def _advance(self) -> None:
        """Assigned tasks build, built ones run: one step per tick, so that a watcher can see each."""
        for run in list(self._runs.values()):
            task, attempt = run.task, run.attempt
            worker = self.workers.get(attempt.worker_id)
            if worker is None or worker.lost_ms is not None:
                continue
            if attempt.state == job_pb2.TASK_STATE_BUILDING:
                task.state = attempt.state = job_pb2.TASK_STATE_RUNNING
                attempt.started_ms, attempt.status_message = self.now_ms(), ""
                self._start(run)
            elif attempt.state == job_pb2.TASK_STATE_ASSIGNED:
                task.state = attempt.state = job_pb2.TASK_STATE_BUILDING
                attempt.status_message = "downloading bundle"

    def _start(self, run: Run) -> None:
        outcome = self._scripted_outcome(run.job, run.attempt.attempt_id)
        if outcome is not None:
            self._scripted.start(run, outcome, self._clock())
        elif self._processes is not None:
            self._processes.start(run)

    def _scripted_outcome(self, job: Job, attempt_id: int) -> Outcome | None:
        outcome = self.script.outcome(job.job_id, job.submitted_ms, attempt_id, self._clock())
        if outcome is None and self._processes is None:
            return Outcome.succeed()
        return outcome

    def _schedule(self) -> None:
        jobs, workers = list(self.table), self.workers.schedulable()
        self.scheduler_error = None
        try:
            plan = scheduler.plan(jobs, workers, self.now_ms(), self._is_held_back)
            for task, worker in plan.assigned:
                self._assign(task, worker)
            for task in (task for job in jobs for task in job.tasks):
                # A task that ran before keeps saying that it is being retried.
                if task.task_id in plan.reasons and not task.attempts:
                    task.pending_reason = self._scripted_reason(task) or plan.reasons[task.task_id]
            self._evict([job for job in jobs if not self._is_held_back(job)], workers)
        except TypeError as error:
            # A constraint that cannot be evaluated stops placement for everybody until its job is gone.
            self.scheduler_error = error

    def _evict(self, jobs: list[Job], workers: list[Worker]) -> None:
        eviction = scheduler.find_eviction(jobs, workers, self._free_when_drained(workers))
        for victim in eviction.victims if eviction else []:
            job = self.table.get(victim.job_id)
            if eviction is not None and job is not None and victim.is_active:
                self.preempt(job, victim, f"{eviction.job.job_id}/0")

    def _free_when_drained(self, workers: Iterable[Worker]) -> dict[str, Need]:
        free = {worker.worker_id: worker.free() for worker in workers}
        for uid, stopping in self._stopping.items():
            if stopping.worker_id in free:
                free[stopping.worker_id] = free[stopping.worker_id].plus(self._runs[uid].job.need)
        return free

    def _assign(self, task: Task, worker: Worker) -> None:
        job = self.table.get(task.job_id)
        if job is None or task.state != PENDING:
            # Placing a sibling may have ended the job.
            return
        attempt_id = len(task.attempts)
        uid = hashlib.sha256(f"{task.task_id}:{attempt_id}@{job.submitted_ms}".encode()).hexdigest()[:16]
        attempt = Attempt(attempt_id, uid, worker.worker_id)
        task.attempts.append(attempt)
        task.state, task.pending_reason = attempt.state, ""
        worker.held[uid] = job.need
        self._runs[uid] = Run(job, task, attempt, worker.group.region, self._blobs)
        # A job that tolerates less than no failure ends here.
        self._apply(job, transitions.settle(job, self.now_ms()))

    def _is_held_back(self, job: Job) -> bool:
        waiting = [task for task in job.tasks if task.state == PENDING]
        if not waiting or job.is_terminal:
            return False
        outcome = self._scripted_outcome(job, len(waiting[0].attempts))
        return outcome is not None and outcome.kind == "pending"

    def _scripted_reason(self, task: Task) -> str:
        job = self.table.get(task.job_id)
        outcome = self._scripted_outcome(job, len(task.attempts)) if job is not None else None
        return outcome.reason if outcome is not None and outcome.kind == "pending" else ""

    def _is_kept(self, existing: Job, policy: int) -> bool:
        """True when the existing job is the answer. Raises WireError when it stands in the way."""
        if policy == job_pb2.EXISTING_JOB_POLICY_ERROR:
            state = job_pb2.JobState.Name(existing.state)
            raise WireError("already_exists", f"Job {existing.job_id} already exists (state={state})")
        if existing.is_terminal:
            # KEEP, too, runs a finished job again.
            return False
        if policy == job_pb2.EXISTING_JOB_POLICY_KEEP:
            return True
        if policy == job_pb2.EXISTING_JOB_POLICY_RECREATE:
            self.terminate(existing)
            return False
        raise WireError("already_exists", f"Job {existing.job_id} already exists and is still running")

    def _is_draining(self, job: Job) -> bool:
        family = {job.job_id, *(child.job_id for child in self.table.descendants(job))}
        return any(self._runs[uid].job.job_id in family for uid in self._stopping)

    def _apply(self, job: Job, stopped: Iterable[Attempt]) -> None:
        self._stop(stopped)
        if not job.is_terminal:
            return
        for child in self.table.descendants(job):
            self._stop(transitions.terminate(child, "Parent job terminated", self.now_ms()))

    def _stop(self, attempts: Iterable[Attempt]) -> None:
        for attempt in attempts:
            if attempt.uid not in self._runs or attempt.uid in self._stopping:
                continue
            if attempt.started_ms is None:
                attempt.finished_ms = self.now_ms()
                self._forget(attempt.uid)
            else:
                self._stopping[attempt.uid] = _Stopping(attempt.worker_id, self._clock())
                self._stop_process(attempt.uid)

    def _stop_process(self, uid: str) -> None:
        self._scripted.stop(uid)
        if self._processes is not None:
            self._processes.stop(uid)

    def _forget(self, uid: str) -> None:
        """The attempt's process is gone: its VM has room again."""
        run = self._runs.pop(uid)
        worker = self.workers.get(run.attempt.worker_id)
        if worker is not None:
            worker.held.pop(uid, None)
