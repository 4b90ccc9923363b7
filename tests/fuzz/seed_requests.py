#!/usr/bin/python3
"""Makes seeds for fuzz_request and fuzz_chunked out of the HTTP cases: seed_requests.py CASES.json OUT.

Writes OUT/request/ID (an octet that says how to cut, then the request) and OUT/chunked/ID (how to cut, limits, then
the body).  The corpora in this folder are what remains of them, and of what a search found, after a merge
(`fuzz_request -merge=1 corpus/request OUT/request`).
"""
import base64
import json
import os
import sys

SIZE_MAX = 1000


def octets(case):
    parts = []
    for step in case["steps"]:
        data = base64.b64decode(step["send_b64"]) if "send_b64" in step else step.get("send", "").encode("latin-1")
        parts.append(data * min(step.get("repeat", 1), 20))
    return b"".join(parts)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.split("\n")[0])
    for name in ("request", "chunked"):
        os.makedirs(os.path.join(sys.argv[2], name), exist_ok=True)
    with open(sys.argv[1], encoding="utf-8") as f:
        cases = json.load(f)
    for case in cases:
        text = octets(case)
        if not text or len(text) > SIZE_MAX:
            continue
        with open(os.path.join(sys.argv[2], "request", case["id"]), "wb") as f:
            f.write(b"\x06" + text)
        head, _, body = text.partition(b"\r\n\r\n")
        if body and b"chunked" in head.lower():
            with open(os.path.join(sys.argv[2], "chunked", case["id"]), "wb") as f:
                f.write(b"\x02\xff" + body)


if __name__ == "__main__":
    main()
