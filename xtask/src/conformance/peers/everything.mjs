// A server on the TypeScript SDK 2.x with everything that the conformance suite tests: `everything.mjs PORT`.
//
// One address serves both eras of the protocol. Tools that ask the client use `elicitInput` and `requestSampling`,
// which work in the legacy era (sessions) only, or return `input_required`, which works in the modern era (2026-07-28)
// only.
import { randomBytes, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

import { localhostHostValidation, localhostOriginValidation, NodeStreamableHTTPServerTransport, toNodeHandler, toWebRequest } from '@modelcontextprotocol/node';
import { acceptedContent, createMcpHandler, createRequestStateCodec, inputRequired, inputResponse, isLegacyRequest, McpServer, ResourceTemplate } from '@modelcontextprotocol/server';
import { z } from 'zod';

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const WAV = 'UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=';
const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities';

// The name of a tool and of a prompt that the tests add and remove.
const TEMPORARY = 'test_comes_and_goes';
const there = { tool: false, prompt: false };
const state = createRequestStateCodec({ key: randomBytes(32) });

const text = value => ({ type: 'text', text: value });
const says = value => ({ content: [text(value)] });
const picture = { type: 'image', data: PNG, mimeType: 'image/png' };
const resource = (uri, mimeType, value) => ({ type: 'resource', resource: { uri, mimeType, text: value } });

// Requests to the client in the modern era, returned as `input_required`.
const form = (message, fields) => {
  const properties = Object.fromEntries(Object.entries(fields).map(([name, type]) => [name, { type }]));
  return inputRequired.elicit({ message, requestedSchema: { type: 'object', properties, required: Object.keys(fields) } });
};
const model = prompt => inputRequired.createMessage({ messages: [{ role: 'user', content: text(prompt) }], maxTokens: 100 });
const accepted = (ctx, key, ...fields) => {
  const content = acceptedContent(ctx.mcpReq.inputResponses, key);
  return content && fields.every(field => field in content) ? content : undefined;
};
const answered = (ctx, key, kind) => {
  const view = inputResponse(ctx.mcpReq.inputResponses, key);
  return view.kind === kind ? view : undefined;
};
const declared = ctx => ctx.mcpReq.envelope?.[CAPABILITIES] ?? ctx.mcpReq._meta?.[CAPABILITIES] ?? {};

const PLAIN = ['option1', 'option2', 'option3'];
const TITLED = ['First', 'Second', 'Third'].map((name, at) => ({ const: `value${at + 1}`, title: `${name} Option` }));
const FORMS = {
  test_elicitation_sep1034_defaults: {
    name: { type: 'string', default: 'John Doe' },
    age: { type: 'integer', default: 30 },
    score: { type: 'number', default: 95.5 },
    status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
    verified: { type: 'boolean', default: true }
  },
  test_elicitation_sep1330_enums: {
    untitledSingle: { type: 'string', enum: PLAIN },
    titledSingle: { type: 'string', oneOf: TITLED },
    legacyEnum: { type: 'string', enum: ['opt1', 'opt2', 'opt3'], enumNames: ['Option One', 'Option Two', 'Option Three'] },
    untitledMulti: { type: 'array', items: { type: 'string', enum: PLAIN } },
    titledMulti: { type: 'array', items: { anyOf: TITLED } }
  }
};

const TOOLS = {
  test_simple_text: () => says('This is a simple text response for testing.'),
  test_image_content: () => ({ content: [picture] }),
  test_audio_content: () => ({ content: [{ type: 'audio', data: WAV, mimeType: 'audio/wav' }] }),
  test_embedded_resource: () => ({ content: [resource('test://embedded-resource', 'text/plain', 'This is an embedded resource content.')] }),
  test_multiple_content_types: () => ({
    content: [text('Multiple content types test:'), picture, resource('test://mixed-content-resource', 'application/json', '{"test":"data","value":123}')]
  }),
  test_error_handling: () => {
    throw new Error('This tool intentionally returns an error for testing');
  },
  test_tool_with_logging: logs,
  test_logging_tool: logs,
  test_tool_with_progress: async ctx => {
    const progressToken = ctx.mcpReq._meta?.progressToken;
    for (const progress of [0, 50, 100]) {
      if (progressToken !== undefined) await ctx.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress, total: 100 } });
      await sleep(50);
    }
    return says('done');
  },
  test_trigger_tool_change: () => {
    there.tool = !there.tool;
    handler.notify.toolsChanged();
    return says('The list of tools changed.');
  },
  test_trigger_prompt_change: () => {
    there.prompt = !there.prompt;
    handler.notify.promptsChanged();
    return says('The list of prompts changed.');
  },
  // The SDK refuses this result for a client that does not declare `sampling`, which the scenario expects.
  test_missing_capability: () => inputRequired({ inputRequests: { question: model('Hello?') } }),
  test_streaming_elicitation: ctx => greet(ctx, 'user'),
  test_input_required_result_elicitation: ctx => greet(ctx, 'user_name'),
  test_input_required_result_sampling: ctx => {
    const found = answered(ctx, 'capital_question', 'sampling');
    return found ? says(found.result.content.text ?? '') : inputRequired({ inputRequests: { capital_question: model('What is the capital of France?') } });
  },
  test_input_required_result_list_roots: ctx => {
    const found = answered(ctx, 'client_roots', 'roots');
    return found ? says(found.roots.map(root => root.uri).join(', ')) : inputRequired({ inputRequests: { client_roots: inputRequired.listRoots() } });
  },
  test_input_required_result_request_state: confirm,
  test_input_required_result_tampered_state: confirm,
  test_input_required_result_multiple_inputs: async ctx => {
    const [name, greeting, roots] = [accepted(ctx, 'user_name', 'name'), answered(ctx, 'greeting', 'sampling'), answered(ctx, 'client_roots', 'roots')];
    if (name && greeting && roots) return says(`${greeting.result.content.text ?? ''} ${name.name}, who works in ${roots.roots.length} places`);
    const inputRequests = { user_name: form('What is your name?', { name: 'string' }), greeting: model('Generate a greeting'), client_roots: inputRequired.listRoots() };
    return inputRequired({ inputRequests, requestState: await state.mint({ step: 1 }) });
  },
  test_input_required_result_multi_round: async ctx => {
    const kept = ctx.mcpReq.requestState();
    const [first, second] = [accepted(ctx, 'step1', 'name'), accepted(ctx, 'step2', 'color')];
    if (kept?.name && second) return says(`${kept.name} likes ${second.color}`);
    if (first) {
      const inputRequests = { step2: form('Step 2: What is your favorite color?', { color: 'string' }) };
      return inputRequired({ inputRequests, requestState: await state.mint({ name: first.name }) });
    }
    return inputRequired({ inputRequests: { step1: form('Step 1: What is your name?', { name: 'string' }) }, requestState: await state.mint({}) });
  },
  test_input_required_result_capabilities: ctx => {
    const { sampling, elicitation } = declared(ctx);
    const inputRequests = {};
    if (sampling) inputRequests.capital_question = model('What is the capital of France?');
    if (elicitation) inputRequests.user_name = form('What is your name?', { name: 'string' });
    const isFirst = !ctx.mcpReq.inputResponses;
    return isFirst && Object.keys(inputRequests).length ? inputRequired({ inputRequests }) : says('asked for what the caller supports');
  }
};
for (const [name, properties] of Object.entries(FORMS)) {
  TOOLS[name] = async ctx => says(`Elicitation completed: ${await elicit(ctx, 'Please fill in', properties)}`);
}

async function logs(ctx) {
  for (const line of ['Tool execution started', 'Tool processing data', 'Tool execution completed']) {
    await ctx.mcpReq.log('info', line);
    await sleep(50);
  }
  return says('logged');
}

function greet(ctx, key) {
  const found = accepted(ctx, key, 'name');
  return found ? says(`Hello, ${found.name}!`) : inputRequired({ inputRequests: { [key]: form('What is your name?', { name: 'string' }) } });
}

async function confirm(ctx) {
  const found = accepted(ctx, 'confirm', 'ok');
  if (found && ctx.mcpReq.requestState()?.kept) return says(`state-ok, confirmed: ${found.ok}`);
  return inputRequired({ inputRequests: { confirm: form('Please confirm', { ok: 'boolean' }) }, requestState: await state.mint({ kept: true }) });
}

async function elicit(ctx, message, properties) {
  const answer = await ctx.mcpReq.elicitInput({ message, requestedSchema: { type: 'object', properties } });
  return `action=${answer.action}, content=${JSON.stringify(answer.content ?? {})}`;
}

function create() {
  const lists = { listChanged: true };
  const capabilities = { tools: lists, prompts: lists, resources: { ...lists, subscribe: true }, logging: {}, completions: {} };
  const server = new McpServer({ name: 'everything-typescript', version: '1.0.0' }, { capabilities, requestState: { verify: state.verify } });
  for (const [name, run] of Object.entries(TOOLS)) {
    const described = { description: `Serves the scenario of ${name}`, inputSchema: z.object({}) };
    server.registerTool(name, described, (_, ctx) => run(ctx));
  }
  server.registerTool('test_elicitation', { description: 'Asks the user', inputSchema: z.object({ message: z.string() }) }, async ({ message }, ctx) =>
    says(`User response: ${await elicit(ctx, message, { username: { type: 'string' }, email: { type: 'string' } })}`)
  );
  server.registerTool('test_sampling', { description: 'Asks the model', inputSchema: z.object({ prompt: z.string() }) }, async ({ prompt }, ctx) => {
    const answer = await ctx.mcpReq.requestSampling({ messages: [{ role: 'user', content: text(prompt) }], maxTokens: 100 });
    return says(`LLM response: ${answer.content.text ?? ''}`);
  });
  if (there.tool) server.registerTool(TEMPORARY, { description: 'Exists temporarily', inputSchema: z.object({}) }, () => says('still here'));
  resources(server);
  prompts(server);
  for (const method of ['resources/subscribe', 'resources/unsubscribe']) server.server.setRequestHandler(method, () => ({}));
  server.server.setRequestHandler('completion/complete', () => ({ completion: { values: ['test'], total: 1, hasMore: false } }));
  return server;
}

function resources(server) {
  const one = (name, mimeType, contents) =>
    server.registerResource(name, `test://${name}`, { description: name, mimeType }, uri => ({ contents: [{ uri: uri.href, mimeType, ...contents }] }));
  one('static-text', 'text/plain', { text: 'This is the content of the static text resource.' });
  one('static-binary', 'image/png', { blob: PNG });
  one('watched-resource', 'text/plain', { text: 'This resource can be watched.' });
  const template = new ResourceTemplate('test://template/{id}/data', { list: undefined });
  server.registerResource('template', template, { description: 'A family of values', mimeType: 'application/json' }, (uri, { id }) => {
    const value = JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` });
    return { contents: [{ uri: uri.href, mimeType: 'application/json', text: value }] };
  });
}

function prompts(server) {
  const user = (...contents) => ({ messages: contents.map(content => ({ role: 'user', content })) });
  const described = (name, argsSchema) => ({ description: `Serves the scenario of ${name}`, ...(argsSchema && { argsSchema: z.object(argsSchema) }) });
  if (there.prompt) server.registerPrompt(TEMPORARY, described(TEMPORARY), () => user(text('Hello')));
  server.registerPrompt('test_simple_prompt', described('test_simple_prompt'), () => user(text('This is a simple prompt for testing.')));
  server.registerPrompt('test_prompt_with_arguments', described('test_prompt_with_arguments', { arg1: z.string(), arg2: z.string() }), ({ arg1, arg2 }) =>
    user(text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`))
  );
  server.registerPrompt('test_prompt_with_embedded_resource', described('test_prompt_with_embedded_resource', { resourceUri: z.string() }), ({ resourceUri }) =>
    user(resource(resourceUri, 'text/plain', 'Embedded resource content for testing.'), text('Please process the embedded resource above.'))
  );
  server.registerPrompt('test_prompt_with_image', described('test_prompt_with_image'), () => user(picture, text('Please analyze the image above.')));
  server.registerPrompt('test_input_required_result_prompt', described('test_input_required_result_prompt'), ctx => {
    const found = accepted(ctx, 'user_context', 'context');
    if (found) return user(text(`This prompt is about ${found.context}.`));
    return inputRequired({ inputRequests: { user_context: form('What context should the prompt use?', { context: 'string' }) } });
  });
}

const handler = createMcpHandler(create, { legacy: 'reject' });
const modern = toNodeHandler(handler);
const sessions = new Map();

/** Serves a request of the legacy era, in a new or existing session. */
async function legacy(req, res, body) {
  let transport = sessions.get(req.headers['mcp-session-id']);
  if (!transport && req.headers['mcp-session-id']) return void res.writeHead(404).end();
  if (!transport) {
    transport = new NodeStreamableHTTPServerTransport({ sessionIdGenerator: randomUUID, onsessioninitialized: id => sessions.set(id, transport), onsessionclosed: id => sessions.delete(id) });
    await create().connect(transport);
  }
  await transport.handleRequest(req, res, body);
}

async function parsed(req) {
  let body = '';
  for await (const chunk of req) body += chunk;
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}

const [validHost, validOrigin] = [localhostHostValidation(), localhostOriginValidation()];

createServer(async (req, res) => {
  if (!validHost(req, res) || !validOrigin(req, res)) return;
  const body = req.method === 'POST' ? await parsed(req) : undefined;
  const isLegacy = await isLegacyRequest(await toWebRequest(req, body), body);
  await (isLegacy ? legacy : modern)(req, res, body);
}).listen(Number(process.argv[2]), '127.0.0.1');
