// Uses every feature of MCP with the TypeScript SDK: kernel_typescript.mjs VERSION MODE CMD… or VERSION MODE URL;
// prints a JSON line per step.

import { readFileSync } from 'node:fs';
import { connect, load } from './sdk.mjs';

const MODERN = '2026-07-28';
const OPTIONS = { timeout: 30000 };
const report = (line) => console.log(JSON.stringify(line));
const given = JSON.parse(readFileSync(0, 'utf8'));
let seen;
const reset = () => (seen = { asked: [], logs: [], updated: [], progress: 0 });
reset();

async function until(condition) {
  for (let left = 1000; !condition(); left -= 1) {
    if (left === 0) throw new Error('never');
    await new Promise((next) => setTimeout(next, 20));
  }
}

const [version, mode, ...command] = process.argv.slice(2);
const sdk = await load(version);
const client = sdk.client({ sampling: {}, elicitation: { form: {} }, roots: { listChanged: true } }, mode);
const onRequest = (method, handler) => client.setRequestHandler(sdk.method(method), handler);
const onNotification = (method, handler) => client.setNotificationHandler(sdk.method(method), handler);
onRequest('sampling/createMessage', (request) => {
  seen.asked.push('sampling');
  const { content } = request.params.messages[0];
  const { text } = Array.isArray(content) ? content[0] : content;
  return { role: 'assistant', model: 'none', content: { type: 'text', text: `heard: ${text}` } };
});
onRequest('elicitation/create', () => {
  seen.asked.push('elicitation');
  return { action: 'accept', content: { name: 'Ada', check: true } };
});
onRequest('roots/list', () => {
  seen.asked.push('roots');
  return { roots: [{ uri: given.root, name: 'work' }] };
});
onNotification('notifications/message', (message) => void seen.logs.push(message.params.logger));
onNotification('notifications/resources/updated', (message) => void seen.updated.push(message.params.uri));

const isModern = () => sdk.revision(client) === MODERN;
// In the modern era, a client asks for log messages with each request.
const meta = () => (isModern() ? { _meta: { 'io.modelcontextprotocol/logLevel': 'debug' } } : {});

const call = (step, more = {}) =>
  sdk.call(
    client,
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
  // Searches for a tool by a description, and calls the first tool found by its name.
  find: async (step) => {
    const query = { name: 'mgp_tools_discover', arguments: { query: step.query } };
    const found = JSON.parse((await call(query)).content[0].text).tools[0].name;
    const target = { name: found, arguments: step.arguments };
    return { found, ...(await call({ name: 'mgp_tools_call', arguments: target })) };
  },
  // Cancels a call after its first progress notification.
  cancel: async (step) => {
    const abort = new AbortController();
    const abandoned = call(step, { signal: abort.signal }).then(
      () => { throw new Error('the call was not abandoned'); },
      () => ({}),
    );
    await until(() => seen.progress > 0);
    abort.abort();
    return abandoned;
  },
  // Subscribes to a resource that a tool changes.
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
  // Waits for a log message that a tool makes its server send.
  log: async (step) => {
    if (!isModern()) await client.setLoggingLevel('debug', OPTIONS);
    await call(step);
    await until(() => seen.logs.length > 0);
    return call(step);
  },
};

await connect(sdk, client, command, given.key ? { Authorization: `Bearer ${given.key}` } : {});
report({ step: 'connect', result: { revision: sdk.revision(client) } });
for (const step of given.steps) {
  reset();
  try {
    const result = await DO[step.do](step);
    report({ step: step.step, result, ...seen });
  } catch (error) {
    report({ step: step.step, error: String(error.message), ...seen });
  }
}
await client.close();
report({ step: 'close', result: {} });
