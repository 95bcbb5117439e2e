"""Drives a server with the Python SDK 1.x: python1.py MODE CMD… or MODE URL, one line of JSON a step."""

import json
import sys
from datetime import timedelta

import anyio
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client


def say(step, **facts):
    print(json.dumps({"step": step, **facts}), flush=True)


def text_of(result):
    return "".join(getattr(block, "text", "") for block in result.content)


async def call(session, step, name, arguments):
    try:
        result = await session.call_tool(name, arguments)
        say(step, kind="error" if result.isError else "result", text=text_of(result))
    except Exception as error:
        say(step, kind="error", text=str(error))


async def main(command):
    if command[0].startswith("http://"):
        transport = streamablehttp_client(command[0])
    else:
        transport = stdio_client(StdioServerParameters(command=command[0], args=command[1:]))
    # Over HTTP a third part says the session's id.
    async with transport as (read, write, *_):
        async with ClientSession(read, write, timedelta(seconds=20)) as session:
            await session.initialize()
            say("connect")
            tools = await session.list_tools()
            say("list", names=[tool.name for tool in tools.tools])
            for step, name, arguments in json.load(sys.stdin):
                await call(session, step, name, arguments)
    say("close")


# The first argument is the mode, of which this SDK has one.
anyio.run(main, sys.argv[2:])
