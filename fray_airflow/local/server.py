"""The embedded Iris with its two servers and a thread that drives its clock."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Literal, Self

from .access import Access
from .cluster import LocalCluster
from .connect_server import ConnectServer
from .environment import LOOPBACK
from .faults import SHUTTING_DOWN
from .fleet import Fleet
from .grpc_server import GrpcServer
from .logs import LogStore
from .processes import ProcessRunner
from .runner import Runner
from .script import Outcome
from .submission import Submission
from .timing import Timing

TICK_SECONDS = 0.05


class LocalIris:
    """An Iris in this process, for demos and tests: everything in memory, nothing survives `stop`.

    With run="process" tasks are real processes of this machine, unless a script says what becomes of them; with
    run="script" a task without a script succeeds at once. Without `token` every caller is the anonymous admin.
    Use it as a context manager, or call `start` and `stop`; one object serves once.
    """

    def __init__(
        self,
        fleet: Fleet | None = None,
        *,
        run: Literal["process", "script"] = "process",
        port: int = 0,
        connect_port: int = 0,
        host: str = LOOPBACK,
        token: str | None = None,
        user_id: str = "alice",
        role: str = "user",
        timing: Timing | None = None,
        clock: Callable[[], float] = time.time,
        calling_task: Callable[[], str] = str,
    ) -> None:
        """`calling_task` tells which Airflow task calls, so that `script` finds its jobs; "" when that is not known."""
        self.fleet = fleet or Fleet.default()
        self._timing = timing or Timing()
        self.cluster = LocalCluster(
            self.fleet,
            clock=clock,
            timing=self._timing,
            access=Access(token, user_id, role),
            processes=self._processes if run == "process" else None,
            calling_task=calling_task,
        )
        self._address = (host, port, connect_port)
        self._grpc: GrpcServer | None = None
        self._connect: ConnectServer | None = None
        self._ended = threading.Event()
        self._ticker = threading.Thread(target=self._tick, name="local-iris-tick", daemon=True)

    @property
    def target(self) -> str:
        """Of the gRPC server, as `grpc://host:port`. Known once started."""
        return f"grpc://{self._address[0]}:{_started(self._grpc).port}"

    @property
    def url(self) -> str:
        """Of the Connect server, as `http://host:port`. Known once started."""
        return f"http://{self._address[0]}:{_started(self._connect).port}"

    def start(self) -> Self:
        """Raises OSError or RuntimeError when a port that was asked for is taken."""
        host, port, connect_port = self._address
        self._connect = ConnectServer(self.cluster, host, connect_port)
        self._connect.start()
        try:
            self._grpc = GrpcServer(self.cluster, host, port)
        except RuntimeError:
            self.stop()
            raise
        self._grpc.start()
        self._ticker.start()
        return self

    def stop(self) -> None:
        """Ends servers, threads and every task's processes. May be called again."""
        if self._ended.is_set():
            return
        self._ended.set()
        if self._ticker.is_alive():
            self._ticker.join()
        self.cluster.close()
        for server in (self._grpc, self._connect):
            if server is not None:
                server.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def calls(self) -> Counter[str]:
        """How often each RPC was called, refused calls included."""
        return self.cluster.faults.calls

    def script(self, pattern: str, *outcomes: Outcome) -> None:
        """What becomes of the jobs that fit `pattern`: each attempt of a job takes the next outcome. None: one success.

        `pattern` is the last component of a job's name, or the id of the Airflow task that submits it where that is
        known (`calling_task`); either may be a glob ("*train*"). The first script that fits and has an outcome left
        counts. May be called again, for more. An attempt that none is left for does what it would without a script.
        """
        self.cluster.script(pattern, *outcomes)

    def allow_others(self) -> None:
        """Jobs that no script has an outcome for are welcome: `complaints` are silent about them."""
        self.cluster.allow_others()

    @property
    def submissions(self) -> list[Submission]:
        """What was asked of this Iris, in the order in which it accepted it. Refused requests are not among them."""
        return self.cluster.submissions()

    def complaints(self) -> list[str]:
        """What did not go as scripted: outcomes and faults that nothing has met, and, where anything is scripted, jobs
        that no outcome was left for. Empty if all did. The pytest fixture `local_iris` fails its test for them.
        """
        return self.cluster.complaints()

    def unused_script(self) -> list[str]:
        """Outcomes that nothing has met."""
        return self.cluster.unused_script()

    def fault(self, method: str, *, code: str = "unavailable", times: int = 1, message: str = "") -> None:
        """Refuse the next `times` calls of `method` before they do anything."""
        self.cluster.faults.refuse(method, code, times, message)

    def lose_reply(self, method: str, times: int = 1) -> None:
        """Do the work of the next `times` calls of `method`, and let the caller see `unavailable`."""
        self.cluster.faults.lose_reply(method, times)

    def away(self, polls: int = 1, *, seconds: float | None = None, after: float = 0) -> None:
        """Refuse the next `polls` calls, whatever they are; with `seconds`, all calls for so long instead, from `after`
        seconds from now on.
        """
        if seconds is None:
            self.cluster.faults.refuse("*", "unavailable", polls, SHUTTING_DOWN)
        else:
            self.cluster.faults.be_away(seconds, after)

    def preempt(self, task_id: str, by: str = "/other/urgent/0") -> None:
        """Take the VM of a running task away."""
        self.cluster.preempt(task_id, by)

    def lose_worker(self, worker_id: str) -> None:
        """A VM dies."""
        self.cluster.lose_worker(worker_id)

    def _processes(self, logs: LogStore) -> Runner:
        return ProcessRunner(logs, lambda: self.url, self._timing.kill_grace_seconds)

    def _tick(self) -> None:
        while not self._ended.wait(TICK_SECONDS):
            self.cluster.tick()


def _started[Server](server: Server | None) -> Server:
    if server is None:
        raise RuntimeError("LocalIris has not been started; use it in a `with` statement or call start()")
    return server
