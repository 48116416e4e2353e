"""Answers to those whose request is not even read: bytes, ready to be sent."""

from __future__ import annotations

import json


def refused(status: str, error: str) -> bytes:
    """Such as `503 Service Unavailable`, and one line that says why."""
    body = json.dumps({"error": error}).encode()
    head = (
        f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
