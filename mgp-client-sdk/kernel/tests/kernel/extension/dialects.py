"""Writes dialects.jsonl: members of the proposals in each place where implementations of them write these.

Run it as `python3 dialects.py > dialects.jsonl`; the test `dialects.rs` reads the file.
"""

import json

MEMBERS = {
    "intent": "find the last incident",
    "confirmation_token": "conf-abc123",
    "user_confirmed": True,
    "session_token": "st-1",
}

ERROR = {
    "code": "RATE_LIMIT_EXCEEDED",
    "message": "API rate limit reached.",
    "category": "rate_limited",
    "retry_after_seconds": 42,
    "user_actionable": True,
}

TOOL = {
    "required_scopes": ["delete:tickets"],
    "requires_confirmation": True,
    "confirmation_message": "Delete '{ticket_id}'?",
    "risk_level": "destructive",
    "cost": {"category": "metered", "estimated_units": 5},
    "latency": "minutes",
}


def write(kind, dialect, message):
    print(json.dumps({"kind": kind, "dialect": dialect, "message": message}))


for name, value in MEMBERS.items():
    call = {"name": "delete_ticket", "arguments": {"ticket_id": "PROJ-2"}}
    write(name, "meta", {**call, "_meta": {name: value}})
    write(name, "mgp", {**call, "_mgp": {name: value}})
    write(name, "top", {**call, name: value})

content = [{"type": "text", "text": "API rate limit reached."}]
write("error", "structured", {"content": content, "isError": True, "structuredContent": {"error": ERROR}})
write("error", "top", {"content": content, "isError": True, "error": ERROR})

tool = {"name": "delete_ticket", "inputSchema": {"type": "object"}}
write("tool", "meta", {**tool, "_meta": TOOL})
write("tool", "top", {**tool, **TOOL})
