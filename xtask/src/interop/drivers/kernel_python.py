"""Uses every feature of MCP with the Python SDK: kernel_python.py MODE CMD… or MODE URL; prints one JSON line a step."""

import json
import sys
import warnings

import anyio
from sdk import VERSION, connect, types

# Hides the warnings of the SDK 2.x that roots, logging and sampling are deprecated.
warnings.simplefilter("ignore")


def plain(model):
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


class Host:
    """A client that offers elicitation, sampling and roots, and records the requests and notifications it receives."""

    def __init__(self, given):
        self.root, self.asked, self.logs, self.updated, self.steps = given["root"], [], [], [], []

    async def model(self, _context, params):
        self.asked.append("sampling")
        text = params.messages[0].content.text
        content = types.TextContent(type="text", text=f"heard: {text}")
        return types.CreateMessageResult(role="assistant", model="none", content=content)

    async def person(self, _context, _params):
        self.asked.append("elicitation")
        return types.ElicitResult(action="accept", content={"name": "Ada", "check": True})

    async def folders(self, _context):
        self.asked.append("roots")
        return types.ListRootsResult(roots=[types.Root(uri=self.root, name="work")])

    async def log(self, params):
        self.logs.append(params.logger)

    async def message(self, message):
        # The SDK 1.x wraps notifications in an object.
        message = getattr(message, "root", message)
        if isinstance(message, types.ResourceUpdatedNotification):
            self.updated.append(str(message.params.uri))

    async def progress(self, progress, _total, _message):
        self.steps.append(progress)


async def until(condition):
    with anyio.fail_after(20):
        while not condition():
            await anyio.sleep(0.02)


async def call(client, host, step):
    return plain(await client.call_tool(step["name"], step["arguments"], progress_callback=host.progress))


async def find(client, host, step):
    """Searches for a tool by a description, and calls the first tool found by its name."""
    query = {"name": "mgp_tools_discover", "arguments": {"query": step["query"]}}
    found = json.loads((await call(client, host, query))["content"][0]["text"])["tools"][0]
    target = {"name": found["name"], "arguments": step["arguments"]}
    return {"found": found["name"], **await call(client, host, {"name": "mgp_tools_call", "arguments": target})}


async def cancel(client, host, step):
    """Cancels a call after its first progress notification; with the SDK 1.x this script must notify the server."""
    request = client._request_id if VERSION == 1 else None
    async with anyio.create_task_group() as group:
        group.start_soon(call, client, host, step)
        await until(lambda: host.steps)
        group.cancel_scope.cancel()
    if VERSION == 1:
        params = types.CancelledNotificationParams(requestId=request)
        cancelled = types.CancelledNotification(method="notifications/cancelled", params=params)
        await client.send_notification(types.ClientNotification(cancelled))
    return {}


async def watch(client, host, step):
    """Subscribes to a resource that a tool changes."""
    uri, toggle = step["uri"], {"name": step["name"], "arguments": {}}
    if host.is_modern:
        async with client.listen(resource_subscriptions=[uri]) as changes:
            await call(client, host, toggle)
            with anyio.fail_after(20):
                async for change in changes:
                    if type(change).__name__ == "ResourceUpdated":
                        host.updated.append(str(change.uri))
                        break
    else:
        session = client if VERSION == 1 else client.session
        await session.subscribe_resource(uri)
        await call(client, host, toggle)
        await until(lambda: host.updated)
        await session.unsubscribe_resource(uri)
    return await call(client, host, toggle)


async def log(client, host, step):
    """Waits for a log message that a tool makes its server send."""
    if not host.is_modern:
        await client.set_logging_level("debug")
    await call(client, host, step)
    await until(lambda: host.logs)
    return await call(client, host, step)


async def complete(client, _host, step):
    kind = types.PromptReference if "name" in step["ref"] else types.ResourceTemplateReference
    return plain(await client.complete(kind(**step["ref"]), step["argument"]))


DO = {
    "tools": lambda client, host, step: client.list_tools(),
    "resources": lambda client, host, step: client.list_resources(),
    "templates": lambda client, host, step: client.list_resource_templates(),
    "prompts": lambda client, host, step: client.list_prompts(),
    "read": lambda client, host, step: client.read_resource(step["uri"]),
    "prompt": lambda client, host, step: client.get_prompt(step["name"], step["arguments"]),
    "call": call,
    "find": find,
    "cancel": cancel,
    "watch": watch,
    "log": log,
    "complete": complete,
}


async def take(client, host, step):
    host.asked, host.logs, host.updated, host.steps = [], [], [], []
    try:
        result = await DO[step["do"]](client, host, step)
        outcome = {"result": result if isinstance(result, dict) else plain(result)}
    except Exception as error:
        outcome = {"error": f"{type(error).__name__}: {error}"}
    seen = {"asked": host.asked, "logs": host.logs, "updated": host.updated, "progress": len(host.steps)}
    print(json.dumps({"step": step["step"], **outcome, **seen}), flush=True)


async def main(mode, command, given):
    host = Host(given)
    headers = {"Authorization": f"Bearer {given['key']}"} if given.get("key") else {}
    handlers = {
        "sampling_callback": host.model,
        "elicitation_callback": host.person,
        "list_roots_callback": host.folders,
        "logging_callback": host.log,
        "message_handler": host.message,
    }
    async with connect(mode, command, 30, headers, **handlers) as (client, revision):
        host.is_modern = revision == "2026-07-28"
        print(json.dumps({"step": "connect", "result": {"revision": revision}}), flush=True)
        for step in given["steps"]:
            await take(client, host, step)
    print(json.dumps({"step": "close", "result": {}}), flush=True)


anyio.run(main, sys.argv[1], sys.argv[2:], json.load(sys.stdin))
