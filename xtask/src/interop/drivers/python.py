"""Calls the tools of a server with the Python SDK: python.py MODE CMD… or MODE URL; prints a JSON line per step."""

import json
import sys

import anyio
from sdk import connect


def report(step, **facts):
    print(json.dumps({"step": step, **facts}), flush=True)


def text_of(result):
    return "".join(getattr(block, "text", "") for block in result.content)


def is_error(result):
    return result.is_error if hasattr(result, "is_error") else result.isError


async def call(client, step, name, arguments):
    try:
        result = await client.call_tool(name, arguments)
        report(step, kind="error" if is_error(result) else "result", text=text_of(result))
    except Exception as error:
        report(step, kind="error", text=str(error))


async def main(mode, command):
    async with connect(mode, command, 20) as (client, _revision):
        report("connect")
        tools = await client.list_tools()
        report("list", names=[tool.name for tool in tools.tools])
        for step, name, arguments in json.load(sys.stdin):
            await call(client, step, name, arguments)
    report("close")


anyio.run(main, sys.argv[1], sys.argv[2:])
