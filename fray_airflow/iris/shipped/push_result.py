"""Sends a function's return value or exception, or a command's JSON file, home over Iris's log service.

Where the author set a result_uri, the value is written there instead. As a script it takes a file, or - for stdin.
"""

import base64
import json
import math
import os
import sys
import time
import traceback
import urllib.error
import urllib.request
import uuid
from pathlib import Path

USAGE = 'usage: python "$IRIS_WORKDIR/_fray/push_result.py" FILE   (a file of JSON; - is standard input)'
URI = "FRAY_AIRFLOW_RESULT_URI"
SLICE = "FRAY_AIRFLOW_SLICE_INDEX"
PUSH = "/proxy/system.log-server/finelog.logging.LogService/PushLogs"
PAUSES_SECONDS = (0.5, 1, 2, 4, 8)
TIMEOUT_SECONDS = 60
PASSING = (408, 425, 429)
LONGEST_TRACEBACK = 20_000
LONGEST_MESSAGE = 2_000


class ResultError(Exception):
    """A result that cannot go home; the text says why and what to do."""


def main(arguments):
    """The exit code. 0 means that the author's Airflow can read the value, or has not asked this replica for one."""
    if len(arguments) != 1 or arguments[0] in ("-h", "--help"):
        sys.stderr.write(USAGE + "\n")
        return 2
    try:
        options = read_options()
        # The other replicas need not even have the file.
        if is_sender(options):
            push_value(read_json(arguments[0], options["max_bytes"]), options)
    except ResultError as error:
        sys.stderr.write(f"push_result.py: {error}\n")
        return 1
    return 0


def read_options():
    path = Path(__file__).with_name("result.json")
    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise ResultError(f"{path} cannot be read ({error}); this job's result is not asked for") from None


def read_json(name, limit):
    where = "standard input" if name == "-" else name
    try:
        if name == "-":
            data = sys.stdin.buffer.read(limit + 1)
        else:
            with open(name, "rb") as file:
                data = file.read(limit + 1)
    except OSError as error:
        raise ResultError(f"{where} cannot be read ({error}), and nothing was pushed") from None
    if len(data) > limit:
        raise ResultError(
            f"{where} has more than max_result_bytes={limit} bytes. "
            "Write it to storage and push its path, or raise max_result_bytes."
        )
    try:
        value = json.loads(data.decode("utf-8-sig"), parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ResultError(f"{where} is not JSON ({error}), and nothing was pushed") from None
    fault = find_fault(value)
    if fault:
        raise ResultError(f"{where}: {fault}, and nothing was pushed")
    return value


def refuse_constant(name):
    raise ValueError(f"it holds {name}, which JSON does not have")


def is_sender(options):
    """Values that nobody asked for are not sent for nothing; and of several slices' jobs, one writes to a URI."""
    if options["senders"] == "all":
        return True
    return replica() == 0 and (not os.environ.get(URI) or os.environ.get(SLICE, "0") == "0")


def replica():
    """IRIS_TASK_ID is `<job id>/<replica>:<attempt>`."""
    return int(os.environ.get("IRIS_TASK_ID", "/0").rpartition("/")[2].partition(":")[0])


def push_value(value, options):
    envelope = envelope_of(value, options)
    uri = os.environ.get(URI)
    if uri:
        # The plain value, for others than Airflow to read too.
        store(uri, json.dumps(envelope["value"]).encode())
    else:
        push(envelope)


def store(uri, data):
    """Whole or not at all, as far as the storage knows how."""
    try:
        if uri.startswith("file://"):
            replace_file(Path(uri[len("file://") :]), data)
        else:
            store_with_fsspec(uri, data)
    except ResultError:
        raise
    except Exception as error:
        # Storage libraries raise errors of their own kinds.
        raise ResultError(f"{uri} cannot be written ({type(error).__name__}: {error})") from None


def replace_file(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{uuid.uuid4().hex}.draft")
    try:
        draft.write_bytes(data)
        draft.replace(path)
    finally:
        if draft.exists():
            draft.unlink()


def store_with_fsspec(uri, data):
    try:
        import fsspec

        with fsspec.open(uri, "wb") as file:
            file.write(data)
    except ImportError as error:
        raise ResultError(
            f"{uri} needs fsspec and its package for this storage, which this environment lacks ({error}). "
            "Add them to the image, to the workspace's project or to pip_packages, or leave out result_uri."
        ) from None


def push_exception(error, first_frames):
    """`first_frames` are the runner's own frames, which say nothing to the author."""
    frames = error.__traceback__
    for _ in range(first_frames):
        frames = frames.tb_next if frames is not None and frames.tb_next is not None else frames
    text = "".join(traceback.format_exception(type(error), error, frames))
    push(
        {
            "v": 1,
            "error": {
                "type": type(error).__qualname__,
                "message": str(error)[:LONGEST_MESSAGE],
                "traceback": text[-LONGEST_TRACEBACK:],
            },
        }
    )


def envelope_of(value, options):
    fault = find_fault(value)
    if not fault:
        text = json.dumps(value, allow_nan=False)
        check_size(len(text), options["max_bytes"], "as JSON")
        return {"v": 1, "encoding": "json", "value": value}
    if options["encoding"] != "pickle":
        raise ResultError(
            f'{fault}. Return plain JSON values, convert it before, or allow pickle with result="pickle".'
        )
    return {"v": 1, "encoding": "pickle", "value": pickled(value, options["max_bytes"])}


def pickled(value, max_bytes):
    import cloudpickle

    try:
        data = cloudpickle.dumps(value)
    except Exception as error:
        raise ResultError(
            f"the result cannot be pickled ({type(error).__name__}: {error}). Return plain values."
        ) from None
    text = base64.b64encode(data).decode()
    check_size(len(text), max_bytes, "as a pickle in base64")
    return text


def check_size(size, limit, kind):
    if size > limit:
        raise ResultError(
            f"the result has {size} bytes {kind}, more than max_result_bytes={limit}. "
            "Write it to storage and return its path, or raise max_result_bytes."
        )


def find_fault(value):
    """Why `value` is not JSON, "" if it is. Python's own encoder writes NaN, and makes texts of keys in silence."""
    try:
        return fault_in(value, "result")
    except RecursionError:
        return "the result is nested too deeply, or contains itself"


def fault_in(value, where):
    if value is None or isinstance(value, (str, bool, int)):
        return ""
    if isinstance(value, float):
        return "" if math.isfinite(value) else f"{where} is {value}, which JSON does not have"
    if isinstance(value, dict):
        for key, each in value.items():
            if not isinstance(key, str):
                return f"{where} has the key {key!r}, and JSON's keys are texts"
            fault = fault_in(each, f"{where}[{key!r}]")
            if fault:
                return fault
        return ""
    if isinstance(value, (list, tuple)):
        for number, each in enumerate(value):
            fault = fault_in(each, f"{where}[{number}]")
            if fault:
                return fault
        return ""
    return f"{where} is a {type(value).__module__}.{type(value).__qualname__}, which is not JSON"


def push(envelope):
    """Returns when the log service has it. Sent twice it counts once, so that a lost reply costs nothing."""
    controller, task = os.environ.get("IRIS_CONTROLLER_URL"), os.environ.get("IRIS_TASK_ID")
    if not controller or not task:
        raise ResultError("IRIS_CONTROLLER_URL and IRIS_TASK_ID are not set, so that there is nowhere to send it")
    entry = {
        "source": "result",
        "data": json.dumps(envelope),
        "timestamp": {"epochMs": str(int(time.time() * 1000))},
    }
    body = json.dumps({"key": f"{task}.result", "entries": [entry]}).encode()
    headers = {"Content-Type": "application/json"}
    if os.environ.get("IRIS_TASK_TOKEN"):
        headers["Authorization"] = "Bearer " + os.environ["IRIS_TASK_TOKEN"]
    send(urllib.request.Request(controller.rstrip("/") + PUSH, body, headers))


def send(request):
    # The controller is a neighbour; a proxy for the outside world does not know it.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for pause in (*PAUSES_SECONDS, None):
        fault, passing = attempt(opener, request)
        if not fault:
            return
        if pause is None or not passing:
            raise ResultError(f"{request.full_url} did not take it: {fault}")
        time.sleep(pause)


def attempt(opener, request):
    """What went wrong, "" for nothing, and whether trying again may help."""
    try:
        with opener.open(request, timeout=TIMEOUT_SECONDS) as response:
            response.read()
    except urllib.error.HTTPError as error:
        with error:
            said = error.read(500).decode(errors="replace")
        return f"HTTP {error.code} {said}", error.code >= 500 or error.code in PASSING
    except OSError as error:
        return str(getattr(error, "reason", error)), True
    return "", False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
