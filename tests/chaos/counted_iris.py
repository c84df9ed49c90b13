"""`python -m fray_airflow.local` that also tells every TerminateJob that it carried out, one JSON line each.

Several of them for one job look like one in the job's state: only the server can tell. `live` is whether the job still
was when the call came; for one that has ended it changes nothing.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from fray_airflow.iris import JobState
from fray_airflow.local import cluster
from fray_airflow.local.__main__ import main

_respond = cluster.LocalCluster.respond


def _telling(self: cluster.LocalCluster, path: str, parse: Callable[[Any], object], metadata: Any = None) -> Any:
    asked: list[tuple[str, bool]] = []

    def noting(message: Any) -> None:
        parse(message)
        if path.endswith("/TerminateJob"):
            job = self.engine.table.get(message.job_id)
            asked.append((message.job_id, job is not None and not JobState(job.state).finished))

    reply = _respond(self, path, noting, metadata)
    for job_id, live in asked:
        print(json.dumps({"terminated": job_id, "live": live, "at": time.time()}), flush=True)
    return reply


if __name__ == "__main__":
    cluster.LocalCluster.respond = _telling
    sys.exit(main())
