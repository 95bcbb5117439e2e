// Calls the tools of a server with the TypeScript SDK: typescript.mjs VERSION MODE CMD… or VERSION MODE URL; prints a
// JSON line per step.

import { readFileSync } from 'node:fs';
import { connect, load } from './sdk.mjs';

const report = (step, facts = {}) => console.log(JSON.stringify({ step, ...facts }));
const textOf = (result) => result.content.map((block) => block.text ?? '').join('');

const [version, mode, ...command] = process.argv.slice(2);
const sdk = await load(version);
const client = sdk.client({}, mode);
await connect(sdk, client, command);
report('connect');
report('list', { names: (await client.listTools()).tools.map((tool) => tool.name) });
for (const [step, name, given] of JSON.parse(readFileSync(0, 'utf8'))) {
  try {
    const result = await sdk.call(client, { name, arguments: given }, { timeout: 20000 });
    report(step, { kind: result.isError ? 'error' : 'result', text: textOf(result) });
  } catch (error) {
    report(step, { kind: 'error', text: String(error.message) });
  }
}
await client.close();
report('close');
