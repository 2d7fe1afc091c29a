"""Promises about the protocol, both transports and both eras."""

PROMISES = {
    "protocol:conformance:both-eras": "The official conformance suite passes for 2025-11-25 and for 2026-07-28, by its exit code.",
    "protocol:conformance:can-fail": "The conformance suite fails when no server answers, so a pass means something.",
}
