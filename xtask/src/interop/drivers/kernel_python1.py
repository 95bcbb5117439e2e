"""Uses all that MCP has with the Python SDK 1.x: kernel_python1.py MODE CMD… or MODE URL, one line of JSON a step."""

import json
import sys
from datetime import timedelta

import anyio
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client


def plain(model):
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


class Host:
    """A client with a person, a model and a folder, who writes down what it is asked and told."""

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
        told = getattr(message, "root", None)
        if isinstance(told, types.ResourceUpdatedNotification):
            self.updated.append(str(told.params.uri))

    async def progress(self, progress, _total, _message):
        self.steps.append(progress)


async def until(is_so):
    with anyio.fail_after(20):
        while not is_so():
            await anyio.sleep(0.02)


async def call(client, host, step):
    return plain(await client.call_tool(step["name"], step["arguments"], progress_callback=host.progress))


async def find(client, host, step):
    """Has a tool found by what it does, and calls what was found first by the name it has there."""
    asked = {"name": "mgp_tools_discover", "arguments": {"query": step["query"]}}
    found = json.loads((await call(client, host, asked))["content"][0]["text"])["tools"][0]
    meant = {"name": found["name"], "arguments": step["arguments"]}
    return {"found": found["name"], **await call(client, host, {"name": "mgp_tools_call", "arguments": meant})}


async def cancel(client, host, step):
    """Leaves a call once it says that it goes on; this SDK has its user tell the server."""
    request = client._request_id
    async with anyio.create_task_group() as group:
        group.start_soon(call, client, host, step)
        await until(lambda: host.steps)
        group.cancel_scope.cancel()
    params = types.CancelledNotificationParams(requestId=request)
    told = types.CancelledNotification(method="notifications/cancelled", params=params)
    await client.send_notification(types.ClientNotification(told))
    return {}


async def watch(client, host, step):
    """Watches a resource that a tool makes change."""
    uri, toggle = step["uri"], {"name": step["name"], "arguments": {}}
    await client.subscribe_resource(uri)
    await call(client, host, toggle)
    await until(lambda: host.updated)
    await client.unsubscribe_resource(uri)
    return await call(client, host, toggle)


async def log(client, host, step):
    """Listens to the log of a server that a tool makes talk."""
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
        said = {"result": result if isinstance(result, dict) else plain(result)}
    except Exception as error:
        said = {"error": f"{type(error).__name__}: {error}"}
    seen = {"asked": host.asked, "logs": host.logs, "updated": host.updated, "progress": len(host.steps)}
    print(json.dumps({"step": step["step"], **said, **seen}), flush=True)


async def main(command, given):
    host = Host(given)
    if command[0].startswith("http://"):
        headers = {"Authorization": f"Bearer {given['key']}"} if given.get("key") else {}
        transport = streamablehttp_client(command[0], headers=headers)
    else:
        transport = stdio_client(StdioServerParameters(command=command[0], args=command[1:]))
    # Over HTTP a third part says the session's id.
    async with transport as (read, write, *_):
        session = ClientSession(
            read,
            write,
            timedelta(seconds=30),
            sampling_callback=host.model,
            elicitation_callback=host.person,
            list_roots_callback=host.folders,
            logging_callback=host.log,
            message_handler=host.message,
        )
        async with session:
            revision = (await session.initialize()).protocolVersion
            print(json.dumps({"step": "connect", "result": {"revision": revision}}), flush=True)
            for step in given["steps"]:
                await take(session, host, step)
    print(json.dumps({"step": "close", "result": {}}), flush=True)


# The first argument is the mode, of which this SDK has one.
anyio.run(main, sys.argv[2:], json.load(sys.stdin))
