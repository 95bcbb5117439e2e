"""Connects to a server, given by a command or a URL, with the installed Python SDK (1.x or 2.x)."""

import contextlib
import importlib.metadata
from datetime import timedelta

VERSION = int(importlib.metadata.version("mcp").split(".")[0])

if VERSION == 1:
    from mcp import ClientSession, StdioServerParameters, types
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamablehttp_client
else:
    import httpx2
    import mcp_types as types
    from mcp import Client, StdioServerParameters
    from mcp.client.streamable_http import streamable_http_client

__all__ = ["VERSION", "connect", "types"]


@contextlib.asynccontextmanager
async def connect(mode, command, seconds, headers=None, **handlers):
    """Yields a client and the protocol revision it negotiated; the SDK 1.x has only one mode."""
    url = command[0] if command[0].startswith("http://") else None
    process = None if url else StdioServerParameters(command=command[0], args=command[1:])
    if VERSION == 1:
        transport = streamablehttp_client(url, headers=headers) if url else stdio_client(process)
        # Over HTTP the transport yields a third value for the session's id, which is not needed.
        async with transport as (read, write, *_):
            async with ClientSession(read, write, timedelta(seconds=seconds), **handlers) as client:
                yield client, (await client.initialize()).protocolVersion
        return
    if "logging_callback" in handlers:
        handlers["log_level"] = "debug"
    async with httpx2.AsyncClient(headers=headers or {}, timeout=seconds) as http:
        server = streamable_http_client(url, http_client=http) if url else process
        async with Client(server, mode=mode, read_timeout_seconds=seconds, **handlers) as client:
            yield client, client.protocol_version
