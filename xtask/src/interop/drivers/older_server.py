"""A server that speaks MGP as its older drafts spell it, on the Python SDK 1.x over stdio.

It streams, is cancelled, asks back, and publishes events. It keeps the habits of deployed servers: its capability is
experimental, it announces all of its extensions, and its events have no subscription.
"""

import json

import anyio
import mcp.types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

EXTENSIONS = ["streaming", "callbacks", "events"]

server = Server("older")
received = []  # The methods of MGP that arrived.
answers = {}  # The open callbacks: an event and its response.
cancelled = {}  # The running calls: an event.
out = None


async def send(message):
    parsed = types.JSONRPCMessage.model_validate({"jsonrpc": "2.0", **message})
    await out.send(SessionMessage(parsed))


async def notify(method, **params):
    await send({"method": f"notifications/{method}", "params": params})


async def chunk(request, index, text):
    content = {"type": "text", "text": text}
    await notify("mgp.stream.chunk", request_id=request, index=index, content=content, done=False)


async def ask(request, message):
    """Asks for confirmation, with the same id twice: the second one must not be shown."""
    callback, done = f"cb-{request}", anyio.Event()
    answers[callback] = [done, None]
    question = {
        "callback_id": callback,
        "request_id": request,
        "type": "confirmation",
        "message": message,
        "options": ["confirm", "cancel"],
        "timeout_ms": 20_000,
    }
    await notify("mgp.callback.request", **question)
    await notify("mgp.callback.request", **question, **{"_mgp.attempt": 2})
    with anyio.move_on_after(20):
        await done.wait()
    return answers.pop(callback)[1]


async def events(subscription):
    for number in (1, 2):
        event = {"channel": "model.token_usage", "data": {"tokens": number}}
        if subscription:
            event |= {"subscription_id": subscription, "_mgp.seq": number}
        await notify("mgp.event", **event)


@server.list_tools()
async def list_tools():
    names = ["stream", "hang", "delete", "push", "received"]
    schema = {"type": "object", "properties": {}}
    return [types.Tool(name=name, description=name, inputSchema=schema) for name in names]


@server.call_tool()
async def call_tool(name, arguments):
    request = server.request_context.request_id
    text = name
    if name == "stream":
        for index, word in enumerate(("one ", "two ", "three")):
            await chunk(request, index, word)
        text = "one two three"
    elif name == "hang":
        cancelled[request] = anyio.Event()
        await chunk(request, 0, "begun")
        with anyio.move_on_after(20):
            await cancelled[request].wait()
    elif name == "delete":
        text = "deleted" if await ask(request, "Delete 15 files?") == "confirm" else "kept"
    elif name == "push":
        await events(None)
    elif name == "received":
        text = json.dumps(received)
    return [types.TextContent(type="text", text=text)]


async def answer(method, params):
    """Returns the result of a method of MGP."""
    if method == "mgp/callback/respond":
        callback = params["callback_id"]
        if callback not in answers or answers[callback][0].is_set():
            return {"callback_id": callback, "status": "already_processed"}
        answers[callback][1] = params["response"]
        answers[callback][0].set()
        return {"callback_id": callback, "status": "accepted"}
    if method == "mgp/stream/cancel":
        event = cancelled.pop(params["request_id"], None)
        if event is None:
            return {"cancelled": False, "reason": "not_active"}
        event.set()
        return {"cancelled": True, "partial_result": {"content": "begun"}}
    if method == "mgp/events/subscribe":
        return {"subscribed": params["channels"], "unsupported": [], "subscription_id": "sub-older-1"}
    return None


async def intercept(source, target):
    """Answers the methods of MGP, which the SDK does not know, and passes everything else on."""
    async with source, target:
        async for message in source:
            root = getattr(getattr(message, "message", None), "root", None)
            method = getattr(root, "method", "")
            if method.startswith(("mgp/", "notifications/mgp")):
                received.append(method)
            if method == "notifications/cancelled":
                received.append(method)
                event = cancelled.pop((root.params or {}).get("requestId"), None)
                if event is not None:
                    event.set()
            result = await answer(method, root.params or {}) if method.startswith("mgp/") else None
            if result is None:
                await target.send(message)
                continue
            await send({"id": root.id, "result": result})
            if method == "mgp/events/subscribe":
                await events(result["subscription_id"])


async def main():
    global out
    offer = {"mgp": {"version": "0.6.1", "extensions": EXTENSIONS, "server_id": "older"}}
    options = server.create_initialization_options(experimental_capabilities=offer)
    async with stdio_server() as (source, sink), anyio.create_task_group() as tasks:
        out = sink
        target, filtered = anyio.create_memory_object_stream(0)
        tasks.start_soon(intercept, source, target)
        await server.run(filtered, sink, options)


anyio.run(main)
