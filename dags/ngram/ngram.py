"""A small data-parallel n-gram language model: `python ngram.py tokenise|train|evaluate`. Standard library only.

Each replica of `train` counts its own shard of the corpus, which it finds from IRIS_TASK_ID and IRIS_NUM_TASKS;
replica 0 merges the counts and fits the weights of the orders. The replicas meet in the folder STORE.
"""

import json
import math
import os
import re
import sys
import time
from collections import Counter
from pathlib import Path

STORE = Path(os.environ.get("STORE", "store"))
ORDERS = (1, 2, 3)
FIT_ROUNDS = 8
REPORT_EVERY = 400


def tokenise() -> None:
    """The help texts that Python ships, as sentences of tokens: 80 % to train on, 10 % to fit, 10 % to test."""
    from pydoc_data.topics import topics

    sentences = [
        ["<s>", *re.findall(r"\w+|[^\w\s]", sentence.lower()), "</s>"]
        for text in topics.values()
        for sentence in re.split(r"(?<=[.!?])\s+", text)
    ]
    parts = {"test": sentences[::10], "fit": sentences[1::10]}
    parts["train"] = [sentence for number, sentence in enumerate(sentences) if number % 10 > 1]
    for name, part in parts.items():
        save(f"{name}.json", part)
        print(f"{name}: {len(part)} sentences, {sum(map(len, part))} tokens")
    result({"sentences": len(sentences), "topics": len(topics)})


def train() -> None:
    # /user/job/<replica>:<attempt>
    replica = int(os.environ["IRIS_TASK_ID"].rpartition("/")[2].partition(":")[0])
    replicas = int(os.environ["IRIS_NUM_TASKS"])
    shard = load("train.json")[replica::replicas]
    counts: Counter[str] = Counter()
    for number, sentence in enumerate(shard, 1):
        for order in ORDERS:
            counts.update(" ".join(sentence[at : at + order]) for at in range(len(sentence) - order + 1))
        if number % REPORT_EVERY == 0 or number == len(shard):
            print(f"counted {number} of {len(shard)} sentences, {len(counts)} n-grams")
    save(f"counts-{replica}.json", counts)
    if replica == 0:
        merge(replicas)


def merge(replicas: int) -> None:
    names = [f"counts-{number}.json" for number in range(replicas)]
    while missing := [name for name in names if not (STORE / name).exists()]:
        print(f"waiting for {', '.join(missing)}")
        time.sleep(0.5)
    counts: Counter[str] = Counter()
    for name in names:
        counts.update(load(name))
    total = sum(count for gram, count in counts.items() if " " not in gram)
    model = {"counts": counts, "total": total, "weights": [1 / len(ORDERS)] * len(ORDERS)}
    held_out = load("fit.json")
    for number in range(1, FIT_ROUNDS + 1):
        model["weights"] = refit(model, held_out)
        print(f"round {number}: perplexity on held-out text {perplexity(model, held_out):.2f}")
    save("model.json", model)
    result({"n_grams": len(counts), "weights": [round(weight, 4) for weight in model["weights"]]})


def evaluate() -> None:
    value = perplexity(load("model.json"), load("test.json"))
    print(f"perplexity on unseen text {value:.2f}")
    result({"perplexity": round(value, 2)})


def perplexity(model: dict, sentences: list) -> float:
    logs = [math.log(sum(parts)) for parts in mixtures(model, sentences)]
    return math.exp(-sum(logs) / len(logs))


def refit(model: dict, sentences: list) -> list:
    """One round of expectation maximisation: each order's share of the probability it explains."""
    shares = [0.0] * len(ORDERS)
    for parts in mixtures(model, sentences):
        whole = sum(parts)
        for at, part in enumerate(parts):
            shares[at] += part / whole
    return [share / sum(shares) for share in shares]


def mixtures(model: dict, sentences: list):
    """For every token, what each order adds to its probability."""
    counts, total, weights = model["counts"], model["total"], model["weights"]
    for sentence in sentences:
        for at in range(1, len(sentence)):
            # Add-one keeps an unseen word above zero.
            parts = [weights[0] * (counts.get(sentence[at], 0) + 1) / (total + len(counts))]
            for order in ORDERS[1:]:
                history = " ".join(sentence[max(0, at - order + 1) : at])
                seen = counts.get(history, 0)
                whole = f"{history} {sentence[at]}"
                parts.append(weights[order - 1] * counts.get(whole, 0) / seen if seen else 0.0)
            yield parts


def save(name: str, value: object) -> None:
    STORE.mkdir(parents=True, exist_ok=True)
    # A reader must never see half a file.
    part = STORE / f".{name}.part"
    part.write_text(json.dumps(value))
    part.replace(STORE / name)


def load(name: str):
    return json.loads((STORE / name).read_text())


def result(value: dict) -> None:
    print(f"FRAY_AIRFLOW_RESULT {json.dumps(value)}", flush=True)


if __name__ == "__main__":
    {"tokenise": tokenise, "train": train, "evaluate": evaluate}[sys.argv[1]]()
