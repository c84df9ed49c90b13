"""Starts the command of one slice of several, once the tasks of all slices have found each other.

Each task registers an address with Iris and waits for those of all others. The names hold the launch and the attempt,
so that an address of an earlier one is never taken. Then the command takes this process over.
"""

import collections
import http.client
import json
import os
import random
import signal
import socket
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

CONTROLLER = "/iris.cluster.ControllerService/"
ENDPOINTS = "/iris.cluster.EndpointService/"
TIMEOUT_SECONDS = 30
PASSING = (408, 425, 429)
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 10
RENEW_SECONDS = 200
"""Iris forgets an address after 600 s, and a slice may wait longer than that."""
PORTS = range(20000, 30000)
"""Below those that the kernel gives to outgoing connections: none of them takes the port before the program does."""
PORT_TRIES = 100


class RendezvousError(Exception):
    """The slices have not found each other; the text says why."""


class Place:
    """Which task of which slice this is, from the variables of its job."""

    def __init__(self, environ, options):
        try:
            task_id, _, self.attempt = environ["IRIS_TASK_ID"].rpartition(":")
            self.job, _, index = task_id.rpartition("/")
            self.host = environ["IRIS_ADVERTISE_HOST"]
            self.controller = environ["IRIS_CONTROLLER_URL"].rstrip("/")
            self.jobs = environ["FRAY_AIRFLOW_SLICE_JOBS"].split(",")
            self.slice = int(environ["FRAY_AIRFLOW_SLICE_INDEX"])
            launch = environ["FRAY_AIRFLOW_LAUNCH"]
        except KeyError as error:
            raise RendezvousError(f"{error.args[0]} is not set, so that the slices cannot find each other") from None
        self.token = environ.get("IRIS_TASK_TOKEN")
        self.index = int(index)
        self.tasks = options["tasks"]
        self.seconds = options["seconds"]
        # The first job's id tells the tries and the launches of one try apart, the other the lives of a run.
        self.prefix = f"fray_airflow{self.jobs[0]}/{launch}/{self.attempt}/"
        self.coordinator_name = self.prefix + "coordinator"

    @property
    def is_coordinator(self):
        return self.slice == 0 and self.index == 0

    def address(self, port):
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{port}"

    def expected(self):
        """The names of all tasks, and which task has to have registered each."""
        names = {
            self.name(number, index): f"{job}/{index}"
            for number, job in enumerate(self.jobs)
            for index in range(self.tasks)
        }
        names[self.coordinator_name] = f"{self.jobs[0]}/0"
        return names

    def name(self, number, index):
        return f"{self.prefix}{number}/{index}"

    def slice_of(self, name):
        return int(name[len(self.prefix) :].partition("/")[0])


def main(command):
    """Does not return once the tasks have met: the command has taken over."""
    # The first process of a container is not ended by a signal that it does not handle.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        place = Place(os.environ, json.loads(Path(__file__).with_name("rendezvous.json").read_text()))
        began = time.monotonic()
        found = meet(place)
    except RendezvousError as error:
        sys.stderr.write(f"rendezvous.py: {error}\n")
        return 1
    os.environ.update(variables(place, found))
    if place.index == 0:
        # Not on stderr, whose last line Iris takes for the reason when the command fails.
        waited, where = time.monotonic() - began, os.environ["MEGASCALE_COORDINATOR_ADDRESS"]
        told = (
            f"{len(place.jobs)} slices of {place.tasks} tasks have met after {waited:.0f} s; the coordinator is {where}"
        )
        sys.stdout.write(told + "\n")
        sys.stdout.flush()
    return take_over(command)


def meet(place):
    """The addresses of all tasks, and that of the coordinator, by name."""
    ours = {place.name(place.slice, place.index): place.address(port_of("MEGASCALE_PORT", "IRIS_PORT_MEGASCALE"))}
    if place.is_coordinator:
        # First, so that it is there when all tasks are.
        ours = {place.coordinator_name: place.address(port_of("IRIS_PORT_COORDINATOR")), **ours}
    deadline = time.monotonic() + place.seconds
    renew_at, pause, found, fault = 0.0, FIRST_PAUSE_SECONDS, {}, ""
    while True:
        try:
            if time.monotonic() >= renew_at:
                register(place, ours)
                renew_at = time.monotonic() + RENEW_SECONDS
            found, fault = look(place), ""
            if not missing(place, found):
                return found
        except Passing as error:
            # A controller that is away, or restarts, is waited for like the slices.
            fault = str(error)
        left = deadline - time.monotonic()
        if left <= 0:
            raise RendezvousError(too_late(place, found, fault))
        # Many tasks ask; not all at the same moment.
        time.sleep(min(pause * random.uniform(0.7, 1), left))
        pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)


def port_of(*variables):
    """What the author or Iris has set, else a free one. Where Iris cannot keep a port for a task it sets 0."""
    for variable in variables:
        port = os.environ.get(variable, "0")
        if not port.isdigit():
            raise RendezvousError(f"{variable}={port!r} is not the number of a port")
        if int(port):
            return int(port)
    return free_port()


def free_port():
    for _ in range(PORT_TRIES):
        port = random.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port
    raise RendezvousError(f"no free port from {PORTS[0]} to {PORTS[-1]} was found")


def register(place, addresses):
    for name, address in addresses.items():
        task = f"{place.job}/{place.index}"
        request = {"name": name, "address": address, "taskId": task, "attemptId": int(place.attempt)}
        call(place, ENDPOINTS + "RegisterEndpoint", request)


def look(place):
    """Anybody may register any name: what counts comes from the task that it names."""
    expected = place.expected()
    reply = call(place, ENDPOINTS + "ListEndpoints", {"prefix": place.prefix})
    return {
        each["name"]: each["address"]
        for each in reply.get("endpoints", [])
        if each.get("taskId", "") == expected.get(each["name"])
    }


def missing(place, found):
    """By slice, how many of its tasks have not come."""
    absent = [name for name in place.expected() if name not in found]
    counts = collections.Counter(0 if name == place.coordinator_name else place.slice_of(name) for name in absent)
    return {number: min(count, place.tasks) for number, count in sorted(counts.items())}


def too_late(place, found, fault):
    slices = "; ".join(
        f"{absent} of {place.tasks} tasks of slice {number} did not come, {state_of(place, place.jobs[number])}"
        for number, absent in missing(place, found).items()
    )
    asked = f". The last call failed: {fault}" if fault else ""
    return f"the slices have not met within {place.seconds:g} s: {slices}{asked}"


def state_of(place, job_id):
    """What Iris says of a slice's job, as far as it answers."""
    try:
        job = call(place, CONTROLLER + "GetJobStatus", {"jobId": job_id}).get("job", {})
    except (RendezvousError, Passing):
        return f"whose job is {job_id}"
    state = job.get("state", "").replace("JOB_STATE_", "")
    reason = " ".join(job.get("pendingReason", "").split())
    return f"whose job {job_id} is {state}" + (f" ({reason})" if reason else "")


def variables(place, found):
    """What libtpu reads, and the same in plain words for jax.distributed and others."""
    coordinator = found[place.name(0, 0)]
    return {
        "MEGASCALE_COORDINATOR_ADDRESS": coordinator,
        "MEGASCALE_NUM_SLICES": str(len(place.jobs)),
        "MEGASCALE_PORT": coordinator.rpartition(":")[2],
        "MEGASCALE_SLICE_ID": str(place.slice),
        "FRAY_AIRFLOW_COORDINATOR_ADDRESS": found[place.coordinator_name],
        "FRAY_AIRFLOW_PROCESS_COUNT": str(len(place.jobs) * place.tasks),
        "FRAY_AIRFLOW_PROCESS_INDEX": str(place.slice * place.tasks + place.index),
    }


def take_over(command):
    # Python ignores these, and what is ignored stays so in the program.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    program = command[0]
    python = os.environ.get("IRIS_PYTHON", "")
    if program in ("python", "python3") and os.path.isabs(python):
        # As Iris does on a single machine when it starts the command itself.
        program = python
    try:
        os.execvp(program, [program, *command[1:]])
    except OSError as error:
        sys.stderr.write(f"{type(error).__name__}: {command[0]}: {error.strerror}\n")
        # As shells say it.
        return 127 if isinstance(error, FileNotFoundError) else 126


class Passing(Exception):
    """A call that may succeed when it is made again."""


def call(place, path, body):
    """The reply. Raises Passing, or RendezvousError when trying again cannot help."""
    headers = {"Content-Type": "application/json"}
    if place.token:
        headers["Authorization"] = "Bearer " + place.token
    request = urllib.request.Request(place.controller + path, json.dumps(body).encode(), headers)
    # The controller is a neighbour; a proxy for the outside world does not know it.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=TIMEOUT_SECONDS) as response:
            return json.loads(response.read())
    except urllib.error.HTTPError as error:
        with error:
            said = error.read(500).decode(errors="replace")
        kind = Passing if error.code >= 500 or error.code in PASSING else RendezvousError
        raise kind(f"{request.full_url} answered HTTP {error.code} {said}") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise Passing(f"{request.full_url}: {getattr(error, 'reason', error)}") from None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
