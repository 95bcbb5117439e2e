// Uses all that MCP has with the TypeScript SDK 2.x: kernel_typescript2.mjs MODE CMD… or MODE URL, one line of JSON a step.

import { readFileSync } from 'node:fs';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const MODERN = '2026-07-28';
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

const [mode, command, ...args] = process.argv.slice(2);
const named = mode === 'legacy' || mode === 'auto';
const client = new Client(
  { name: 'interop', version: '1' },
  {
    capabilities: { sampling: {}, elicitation: { form: {} }, roots: { listChanged: true } },
    versionNegotiation: { mode: named ? mode : { pin: mode } },
  },
);
client.setRequestHandler('sampling/createMessage', (request) => {
  seen.asked.push('sampling');
  const content = request.params.messages[0].content;
  const { text } = Array.isArray(content) ? content[0] : content;
  return { role: 'assistant', model: 'none', content: { type: 'text', text: `heard: ${text}` } };
});
client.setRequestHandler('elicitation/create', () => {
  seen.asked.push('elicitation');
  return { action: 'accept', content: { name: 'Ada', check: true } };
});
client.setRequestHandler('roots/list', () => {
  seen.asked.push('roots');
  return { roots: [{ uri: given.root, name: 'work' }] };
});
client.setNotificationHandler('notifications/message', (message) => void seen.logs.push(message.params.logger));
client.setNotificationHandler('notifications/resources/updated', (message) => void seen.updated.push(message.params.uri));

const isModern = () => client.getNegotiatedProtocolVersion() === MODERN;
// A modern client asks for the log with each request.
const meta = () => (isModern() ? { _meta: { 'io.modelcontextprotocol/logLevel': 'debug' } } : {});

const call = (step, more = {}) =>
  client.callTool(
    { name: step.name, arguments: step.arguments ?? {}, ...meta() },
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
    let listening;
    if (isModern()) {
      listening = await client.listen({ resourceSubscriptions: [step.uri] }, OPTIONS);
    } else {
      await client.subscribeResource({ uri: step.uri }, OPTIONS);
    }
    await call(step);
    await until(() => seen.updated.length > 0);
    if (listening) {
      await listening.close();
    } else {
      await client.unsubscribeResource({ uri: step.uri }, OPTIONS);
    }
    return call(step);
  },
  // Listens to the log of a server that a tool makes talk.
  log: async (step) => {
    if (!isModern()) await client.setLoggingLevel('debug', OPTIONS);
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
say({ step: 'connect', result: { revision: client.getNegotiatedProtocolVersion() } });
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
