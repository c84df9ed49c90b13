"""Sends a function's return value, or its exception, home over Iris's log service."""

import base64
import json
import math
import os
import time
import traceback
import urllib.error
import urllib.request

PUSH = "/proxy/system.log-server/finelog.logging.LogService/PushLogs"
PAUSES_SECONDS = (0.5, 1, 2, 4, 8)
TIMEOUT_SECONDS = 60
PASSING = (408, 425, 429)
LONGEST_TRACEBACK = 20_000
LONGEST_MESSAGE = 2_000


class ResultError(Exception):
    """A result that cannot go home; the text says why and what to do."""


def push_value(value, options):
    push(envelope_of(value, options))


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
