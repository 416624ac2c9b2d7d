"""An attention kernel behind stdin and stdout. It knows NumPy, and nothing of attncert.

attncert certify --command "python examples/command/attention.py"
"""

import json
import struct
import sys
from pathlib import Path

import numpy as np

TYPES = {"F32": np.float32, "F16": np.float16, "BOOL": np.bool_}
NAMES = {np.dtype(kind): name for name, kind in TYPES.items()}
ABOUT = {
    "operation": "attention",
    "features": ["scale", "causal", "mask", "return_lse"],
    "formats": ["fp16", "fp32"],
    "declare": {"model": "single"},
    "summary": "attention in NumPy, binary32 inside",
}


def read(path):
    raw = Path(path).read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header, data = json.loads(raw[8 : 8 + length]), raw[8 + length :]
    found = {}
    for name, entry in header.items():
        start, stop = entry["data_offsets"]
        found[name] = np.frombuffer(data[start:stop], TYPES[entry["dtype"]]).reshape(entry["shape"])
    return found


def write(path, tensors):
    header, parts, offset = {}, [], 0
    for name, array in tensors.items():
        raw = np.ascontiguousarray(array).tobytes()
        kind, shape = NAMES[array.dtype], list(array.shape)
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [offset, offset + len(raw)]}
        parts.append(raw)
        offset += len(raw)
    text = json.dumps(header).encode()
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


def attention(tensors, options):
    q, k, v = (tensors[name].astype(np.float32) for name in "qkv")
    groups = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, groups, axis=1), np.repeat(v, groups, axis=1)
    n_q, n_k = q.shape[2], k.shape[2]
    seen = np.ones((n_q, n_k), bool)
    if options.get("causal"):
        seen = np.tril(seen, n_k - n_q)
    seen = np.broadcast_to(seen & tensors.get("mask", True), (*q.shape[:3], n_k))
    s = np.matmul(q, k.swapaxes(2, 3)) * np.float32(options["scale"])
    s = np.where(seen, s, np.float32(-np.inf))
    m = s.max(axis=-1, keepdims=True, initial=-np.inf)
    p = np.where(seen, np.exp(s - np.where(np.isneginf(m), 0, m)), np.float32(0))
    total = p.sum(axis=-1, keepdims=True)
    hidden = seen.any(axis=2)[..., None]  # a value that no query sees must not leave a trace
    o = np.matmul(p, np.where(hidden, v, 0)) / np.where(total == 0, np.float32(1), total)
    return o, (m + np.log(total))[..., 0]


for line in sys.stdin:
    request = json.loads(line)
    answer = {"id": request["id"]}
    if request["do"] == "describe":
        answer.update(ABOUT)
    else:
        with np.errstate(all="ignore"):
            inputs = read(request["inputs"])
            o, lse = attention(inputs, request["options"])
        write(request["outputs"], {"output": o.astype(inputs["q"].dtype), "lse": lse})
    print(json.dumps(answer), flush=True)
