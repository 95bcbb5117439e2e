// Drives a server with the TypeScript SDK 2.x: typescript2.mjs MODE CMD… or MODE URL, one line of JSON a step.

import { readFileSync } from 'node:fs';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const say = (step, facts = {}) => console.log(JSON.stringify({ step, ...facts }));
const textOf = (result) => result.content.map((block) => block.text ?? '').join('');

const [mode, command, ...args] = process.argv.slice(2);
const named = mode === 'legacy' || mode === 'auto';
const client = new Client(
  { name: 'interop', version: '1' },
  { capabilities: {}, versionNegotiation: { mode: named ? mode : { pin: mode } } },
);
const transport = command.startsWith('http://')
  ? new StreamableHTTPClientTransport(new URL(command))
  : new StdioClientTransport({ command, args });
await client.connect(transport);
say('connect');
say('list', { names: (await client.listTools()).tools.map((tool) => tool.name) });
for (const [step, name, given] of JSON.parse(readFileSync(0, 'utf8'))) {
  try {
    const result = await client.callTool({ name, arguments: given }, { timeout: 20000 });
    say(step, { kind: result.isError ? 'error' : 'result', text: textOf(result) });
  } catch (error) {
    say(step, { kind: 'error', text: String(error.message) });
  }
}
await client.close();
say('close');
