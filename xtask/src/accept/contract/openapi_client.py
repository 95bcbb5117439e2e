"""Calls tools behind a kernel with a client that openapi-python-client generated, and prints the outcomes as JSON.

Usage: openapi_client.py URL, with the key in MGP_KEY; the package `generated` is in the working folder.
"""

import importlib
import json
import os
import sys

sys.path.insert(0, os.getcwd())
from generated import AuthenticatedClient, Client  # noqa: E402
from generated import models  # noqa: E402


def call(client, tool, body):
    """Calls a tool by the functions and models that were generated for it."""
    module = importlib.import_module(f"generated.api.default.tool_{tool}")
    model = getattr(models, "".join(part.capitalize() for part in tool.split("_")) + "Input")
    answer = module.sync_detailed(client=client, body=model.from_dict(body))
    parsed = answer.parsed.to_dict() if hasattr(answer.parsed, "to_dict") else answer.parsed
    return {"status": int(answer.status_code), "body": parsed}


url = sys.argv[1]
caller = AuthenticatedClient(base_url=url, token=os.environ["MGP_KEY"])
outcomes = {
    "echo": call(caller, "echo", {"message": "to be"}),
    "list": call(caller, "notes_list", {}),
    "big": call(caller, "big", {"bytes": 4}),
    "invalid": call(caller, "big", {"bytes": -4}),
    "failed": call(caller, "notes_read", {"title": "none"}),
    "stranger": call(Client(base_url=url), "echo", {"message": "to be"}),
}
print(json.dumps(outcomes))
