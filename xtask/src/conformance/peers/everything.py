"""A server on the Python SDK 2.x with everything that the conformance suite tests: `everything.py PORT`, or `stdio`.

The SDK serves both eras of the protocol at one address. Tools that ask the client use `ctx.elicit` and
`ctx.session.create_message`, which work in the legacy era only, or return `input_required` (modern era only).
"""

import asyncio
import base64
import json
import sys
from typing import Any

from mcp.server.mcpserver import Context, MCPServer, UserMessage
from mcp.shared.exceptions import MCPError
from mcp_types import (
    AudioContent,
    Completion,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    EmbeddedResource,
    EmptyResult,
    ImageContent,
    InputRequiredResult,
    ListRootsRequest,
    SamplingMessage,
    SetLevelRequestParams,
    SubscribeRequestParams,
    TextContent,
    TextResourceContents,
    UnsubscribeRequestParams,
)
from pydantic import BaseModel, Field

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
MISSING_CAPABILITY = -32021

server = MCPServer(name="everything-python", version="1.0.0")


def tool(function: Any) -> Any:
    return server.tool(description=f"Serves the scenario of {function.__name__}", structured_output=False)(function)


def prompt(function: Any) -> Any:
    return server.prompt(description=f"Serves the scenario of {function.__name__}")(function)


def text(value: str) -> TextContent:
    return TextContent(type="text", text=value)


def resource(uri: str, mime: str, value: str) -> EmbeddedResource:
    contents = TextResourceContents(uri=uri, mime_type=mime, text=value)
    return EmbeddedResource(type="resource", resource=contents)


def picture() -> ImageContent:
    return ImageContent(type="image", data=PNG, mime_type="image/png")


# Tools that return different kinds of content


@tool
def test_simple_text() -> str:
    return "This is a simple text response for testing."


@tool
def test_image_content() -> list[ImageContent]:
    return [picture()]


@tool
def test_audio_content() -> list[AudioContent]:
    return [AudioContent(type="audio", data=WAV, mime_type="audio/wav")]


@tool
def test_embedded_resource() -> list[EmbeddedResource]:
    return [resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")]


@tool
def test_multiple_content_types() -> list[Any]:
    mixed = resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    return [text("Multiple content types test:"), picture(), mixed]


@tool
def test_error_handling() -> str:
    raise RuntimeError("This tool intentionally returns an error for testing")


# Tools that send notifications during a call


async def log_three_times(ctx: Context) -> str:
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.info(line)
        await asyncio.sleep(0.05)
    return "logged"


@tool
async def test_tool_with_logging(ctx: Context) -> str:
    return await log_three_times(ctx)


@tool
async def test_logging_tool(ctx: Context) -> str:
    return await log_three_times(ctx)


@tool
async def test_tool_with_progress(ctx: Context) -> str:
    for step in (0, 50, 100):
        await ctx.report_progress(progress=step, total=100)
        await asyncio.sleep(0.05)
    return "done"


@tool
async def test_reconnection(ctx: Context) -> str:
    await ctx.close_sse_stream()
    await asyncio.sleep(0.2)
    return "Reconnection test completed"


# Tools that change the lists of tools and prompts

TEMPORARY = "test_comes_and_goes"


def temporary() -> str:
    return "still here"


async def toggle(is_there: bool, add: Any, remove: Any, notify: Any) -> str:
    remove() if is_there else add()
    await notify()
    return "The list changed."


@tool
async def test_trigger_tool_change(ctx: Context) -> str:
    is_there = any(known.name == TEMPORARY for known in await server.list_tools())
    add = lambda: server.add_tool(temporary, name=TEMPORARY, description="Exists temporarily")
    return await toggle(is_there, add, lambda: server.remove_tool(TEMPORARY), ctx.notify_tools_changed)


@tool
async def test_trigger_prompt_change(ctx: Context) -> str:
    is_there = any(known.name == TEMPORARY for known in await server.list_prompts())
    add = lambda: server.prompt(name=TEMPORARY, description="Exists temporarily")(temporary)
    return await toggle(is_there, add, lambda: server.remove_prompt(TEMPORARY), ctx.notify_prompts_changed)


# Requests to the client in the legacy era


class User(BaseModel):
    username: str = Field(description="User's response")
    email: str = Field(description="User's email address")


class Person(BaseModel):
    name: str = Field(default="John Doe")
    age: int = Field(default=30)
    score: float = Field(default=95.5)
    status: str = Field(default="active", json_schema_extra={"enum": ["active", "inactive", "pending"]})
    verified: bool = Field(default=True)


def choice(**extra: Any) -> Any:
    return Field(json_schema_extra=extra)


TITLED = [{"const": f"value{n}", "title": f"{name} Option"} for n, name in ((1, "First"), (2, "Second"), (3, "Third"))]
PLAIN = ["option1", "option2", "option3"]


class Choices(BaseModel):
    untitledSingle: str = choice(enum=PLAIN)
    titledSingle: str = choice(oneOf=TITLED)
    legacyEnum: str = choice(enum=["opt1", "opt2", "opt3"], enumNames=["Option One", "Option Two", "Option Three"])
    untitledMulti: list[str] = choice(items={"type": "string", "enum": PLAIN})
    titledMulti: list[str] = choice(items={"anyOf": TITLED})


async def elicit(ctx: Context, message: str, form: type[BaseModel]) -> str:
    answer = await ctx.elicit(message=message, schema=form)
    content = answer.data.model_dump_json() if answer.action == "accept" else "{}"
    return f"action={answer.action}, content={content}"


@tool
async def test_elicitation(message: str, ctx: Context) -> str:
    return f"User response: {await elicit(ctx, message, User)}"


@tool
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    return f"Elicitation completed: {await elicit(ctx, 'Is this right?', Person)}"


@tool
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    return f"Elicitation completed: {await elicit(ctx, 'Choose', Choices)}"


@tool
async def test_sampling(prompt: str, ctx: Context) -> str:
    message = SamplingMessage(role="user", content=text(prompt))
    answer = await ctx.session.create_message(messages=[message], max_tokens=100)
    return f"LLM response: {getattr(answer.content, 'text', '')}"


# Requests to the client in the modern era, returned as `input_required`


def ask_form(message: str, **fields: str) -> ElicitRequest:
    properties = {name: {"type": kind} for name, kind in fields.items()}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def ask_model(prompt: str) -> CreateMessageRequest:
    message = SamplingMessage(role="user", content=text(prompt))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=100))


def needs(state: str | None = None, **asks: Any) -> InputRequiredResult:
    return InputRequiredResult(input_requests=asks, request_state=state)


def answer(ctx: Context, key: str, kind: str) -> Any:
    """Returns the client's answer to a request of this kind, or `None`."""
    found = (ctx.input_responses or {}).get(key)
    return found if hasattr(found, kind) else None


def accepted(ctx: Context, key: str, *fields: str) -> dict[str, Any] | None:
    """Returns the content of a form if the user accepted it and filled in all fields, else `None`."""
    found = answer(ctx, key, "action")
    content = getattr(found, "content", None) or {}
    return content if all(field in content for field in fields) else None


@tool
async def test_missing_capability(ctx: Context) -> str:
    capabilities = ctx.client_capabilities
    if capabilities is None or capabilities.sampling is None:
        required = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(MISSING_CAPABILITY, "the client must offer the capability `sampling`", required)
    return "the client has a model"


@tool
async def test_streaming_elicitation(ctx: Context) -> str | InputRequiredResult:
    found = accepted(ctx, "user", "name")
    return f"Hello, {found['name']}!" if found else needs(user=ask_form("Who are you?", name="string"))


@tool
async def test_input_required_result_elicitation(ctx: Context) -> str | InputRequiredResult:
    found = accepted(ctx, "user_name", "name")
    return f"Hello, {found['name']}!" if found else needs(user_name=ask_form("What is your name?", name="string"))


@tool
async def test_input_required_result_sampling(ctx: Context) -> str | InputRequiredResult:
    found = answer(ctx, "capital_question", "content")
    return getattr(found.content, "text", "") if found else needs(capital_question=ask_model("What is the capital of France?"))


@tool
async def test_input_required_result_list_roots(ctx: Context) -> str | InputRequiredResult:
    found = answer(ctx, "client_roots", "roots")
    return ", ".join(str(root.uri) for root in found.roots) if found else needs(client_roots=ListRootsRequest())


async def confirm(ctx: Context) -> str | InputRequiredResult:
    found = accepted(ctx, "confirm", "ok")
    if found and ctx.request_state == "kept":
        return f"state-ok, confirmed: {found['ok']}"
    return needs("kept", confirm=ask_form("Please confirm", ok="boolean"))


@tool
async def test_input_required_result_request_state(ctx: Context) -> str | InputRequiredResult:
    return await confirm(ctx)


@tool
async def test_input_required_result_tampered_state(ctx: Context) -> str | InputRequiredResult:
    return await confirm(ctx)


@tool
async def test_input_required_result_multiple_inputs(ctx: Context) -> str | InputRequiredResult:
    name, greeting, roots = accepted(ctx, "user_name", "name"), answer(ctx, "greeting", "content"), answer(ctx, "client_roots", "roots")
    if name and greeting and roots:
        return f"{getattr(greeting.content, 'text', '')} {name['name']}, who works in {len(roots.roots)} places"
    return needs(
        "three",
        user_name=ask_form("What is your name?", name="string"),
        greeting=ask_model("Generate a greeting"),
        client_roots=ListRootsRequest(),
    )


@tool
async def test_input_required_result_multi_round(ctx: Context) -> str | InputRequiredResult:
    state = json.loads(ctx.request_state or "{}")
    first, second = accepted(ctx, "step1", "name"), accepted(ctx, "step2", "color")
    if "name" in state and second:
        return f"{state['name']} likes {second['color']}"
    if first:
        colour = ask_form("Step 2: What is your favorite color?", color="string")
        return needs(json.dumps({"name": first["name"]}), step2=colour)
    return needs("{}", step1=ask_form("Step 1: What is your name?", name="string"))


@tool
async def test_input_required_result_capabilities(ctx: Context) -> str | InputRequiredResult:
    capabilities, asks = ctx.client_capabilities, {}
    if capabilities and capabilities.sampling is not None:
        asks["capital_question"] = ask_model("What is the capital of France?")
    if capabilities and capabilities.elicitation is not None:
        asks["user_name"] = ask_form("What is your name?", name="string")
    if asks and not ctx.input_responses:
        return needs(**asks)
    return "asked for what the caller supports"


# Resources


@server.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    return "This is the content of the static text resource."


@server.resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    return base64.b64decode(PNG)


@server.resource("test://watched-resource", mime_type="text/plain")
def watched() -> str:
    return "This resource can be watched."


@server.resource("test://template/{id}/data", mime_type="application/json")
def template(id: str) -> str:
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


async def accept(_ctx: Any, _params: Any) -> EmptyResult:
    return EmptyResult()


# These methods have no decorator in the SDK, so they are registered on its low-level server.
for method, params in (
    ("resources/subscribe", SubscribeRequestParams),
    ("resources/unsubscribe", UnsubscribeRequestParams),
    ("logging/setLevel", SetLevelRequestParams),
):
    server._lowlevel_server.add_request_handler(method, params, accept)


# Prompts


@prompt
def test_simple_prompt() -> str:
    return "This is a simple prompt for testing."


@prompt
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@prompt
def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:
    contents = resource(resourceUri, "text/plain", "Embedded resource content for testing.")
    return [UserMessage(contents), UserMessage("Please process the embedded resource above.")]


@prompt
def test_prompt_with_image() -> list[UserMessage]:
    return [UserMessage(picture()), UserMessage("Please analyze the image above.")]


@prompt
async def test_input_required_result_prompt(ctx: Context) -> Any:
    found = accepted(ctx, "user_context", "context")
    if found:
        return f"This prompt is about {found['context']}."
    return needs(user_context=ask_form("What context should the prompt use?", context="string"))


@server.completion()
async def complete(_reference: Any, _argument: Any, _context: Any) -> Completion:
    return Completion(values=["test"], total=1, has_more=False)


def main() -> None:
    if sys.argv[1:] == ["stdio"]:
        server.run(transport="stdio")
    else:
        server.run(transport="streamable-http", port=int(sys.argv[1]))


main()
