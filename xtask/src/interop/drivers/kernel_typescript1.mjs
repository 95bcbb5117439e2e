// Uses all that MCP has with the TypeScript SDK 1.x: kernel_typescript1.mjs MODE CMD… or MODE URL, one line of JSON a step.

import { readFileSync } from 'node:fs';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  LATEST_PROTOCOL_VERSION,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
  ResourceUpdatedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';

const OPTIONS = { timeout: 30000 };
const say = (line) => console.log(JSON.stringify(line));
const given = JSON.parse(readFileSync(0, 'utf8'));
let seen;
const anew = () => (seen = { asked: [], logs: [], updated: [], progress: 0 });
anew();

async function until(isSo) {
  for (let left = 1000; !isSo(); left -= 1) {
    if (left === 0) throw new Error('never');
    await new Promise((next) => setTimeout(next, 20));
  }
}

// The first argument is the mode, of which this SDK has one.
const [, command, ...args] = process.argv.slice(2);
const client = new Client(
  { name: 'interop', version: '1' },
  { capabilities: { sampling: {}, elicitation: { form: {} }, roots: { listChanged: true } } },
);
client.setRequestHandler(CreateMessageRequestSchema, (request) => {
  seen.asked.push('sampling');
  const { text } = request.params.messages[0].content;
  return { role: 'assistant', model: 'none', content: { type: 'text', text: `heard: ${text}` } };
});
client.setRequestHandler(ElicitRequestSchema, () => {
  seen.asked.push('elicitation');
  return { action: 'accept', content: { name: 'Ada', check: true } };
});
client.setRequestHandler(ListRootsRequestSchema, () => {
  seen.asked.push('roots');
  return { roots: [{ uri: given.root, name: 'work' }] };
});
client.setNotificationHandler(LoggingMessageNotificationSchema, (message) => void seen.logs.push(message.params.logger));
client.setNotificationHandler(ResourceUpdatedNotificationSchema, (message) => void seen.updated.push(message.params.uri));

const call = (step, more = {}) =>
  client.callTool(
    { name: step.name, arguments: step.arguments ?? {} },
    undefined,
    { ...OPTIONS, ...more, onprogress: () => (seen.progress += 1) },
  );

const DO = {
  tools: () => client.listTools(undefined, OPTIONS),
  resources: () => client.listResources(undefined, OPTIONS),
  templates: () => client.listResourceTemplates(undefined, OPTIONS),
  prompts: () => client.listPrompts(undefined, OPTIONS),
  read: (step) => client.readResource({ uri: step.uri }, OPTIONS),
  prompt: (step) => client.getPrompt({ name: step.name, arguments: step.arguments }, OPTIONS),
  complete: (step) => client.complete({ ref: step.ref, argument: step.argument }, OPTIONS),
  call,
  // Has a tool found by what it does, and calls what was found first by the name it has there.
  find: async (step) => {
    const asked = { name: 'mgp_tools_discover', arguments: { query: step.query } };
    const found = JSON.parse((await call(asked)).content[0].text).tools[0].name;
    const meant = { name: found, arguments: step.arguments };
    return { found, ...(await call({ name: 'mgp_tools_call', arguments: meant })) };
  },
  // Leaves a call once it says that it goes on.
  cancel: async (step) => {
    const leaves = new AbortController();
    const left = call(step, { signal: leaves.signal }).then(
      () => { throw new Error('it was not left'); },
      () => ({}),
    );
    await until(() => seen.progress > 0);
    leaves.abort();
    return left;
  },
  // Watches a resource that a tool makes change.
  watch: async (step) => {
    await client.subscribeResource({ uri: step.uri }, OPTIONS);
    await call(step);
    await until(() => seen.updated.length > 0);
    await client.unsubscribeResource({ uri: step.uri }, OPTIONS);
    return call(step);
  },
  // Listens to the log of a server that a tool makes talk.
  log: async (step) => {
    await client.setLoggingLevel('debug', OPTIONS);
    await call(step);
    await until(() => seen.logs.length > 0);
    return call(step);
  },
};

const headers = given.key ? { Authorization: `Bearer ${given.key}` } : {};
const transport = command.startsWith('http://')
  ? new StreamableHTTPClientTransport(new URL(command), { requestInit: { headers } })
  : new StdioClientTransport({ command, args });
await client.connect(transport);
say({ step: 'connect', result: { revision: LATEST_PROTOCOL_VERSION } });
for (const step of given.steps) {
  anew();
  try {
    const result = await DO[step.do](step);
    say({ step: step.step, result, ...seen });
  } catch (error) {
    say({ step: step.step, error: String(error.message), ...seen });
  }
}
await client.close();
say({ step: 'close', result: {} });
