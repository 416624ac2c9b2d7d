"""A softmax behind stdin and stdout that does, when asked, what such a program may never do."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

MODE = sys.argv[1]
ABOUT = {"operation": "softmax", "formats": ["fp32"], "declare": {"model": "single"}}


def told(request: dict[str, object]) -> dict[str, object]:
    """The description; two modes spoil it."""
    if MODE == "silent":
        sys.exit(3)
    return {**ABOUT, **({"colour": "red"} if MODE == "boasts" else {})}


def misbehave(request: dict[str, str], x: np.ndarray) -> None:
    """What happens instead of an answer; long rows only, in the mode that dies there."""
    if MODE == "hangs":
        time.sleep(600)
    if MODE in ("crashes", "crashes-on-long-rows") and (MODE == "crashes" or x.shape[1] > 100):
        print("out of luck", file=sys.stderr)
        sys.exit(7)
    if MODE == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if MODE == "garbage":
        print("Loading model...", flush=True)
    if MODE == "list":
        print("[1, 2]", flush=True)
    if MODE == "other-id":
        print(json.dumps({"id": 99}), flush=True)


def answered(request: dict[str, str]) -> dict[str, object]:
    """Run once."""
    x = load_file(request["inputs"])["x"].astype(np.float32)
    misbehave(request, x)
    if MODE == "refuses":
        return {"error": "rows are too long"}
    if MODE == "broken-file":
        Path(request["outputs"]).write_bytes(b"nothing")
        return {}
    if MODE == "no-file":
        return {}
    e = np.exp(x if MODE == "unshifted" else x - x.max(-1, keepdims=True, initial=-np.inf))
    y = e / e.sum(-1, keepdims=True)
    save_file({"result" if MODE == "other-name" else "output": y}, request["outputs"])
    return {}


np.seterr(all="ignore")
for line in sys.stdin:
    asked = json.loads(line)
    answer = told(asked) if asked["do"] == "describe" else answered(asked)
    print(json.dumps({"id": asked["id"], **answer}), flush=True)
