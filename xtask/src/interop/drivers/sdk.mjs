// Connects to a server, given by a command or a URL, with the TypeScript SDK 1.x or 2.x.

// Translates a mode for the SDK 2.x; the SDK 1.x has only one mode.
const negotiation = (mode) => (mode === 'legacy' || mode === 'auto' ? mode : { pin: mode });

/** Loads one major version of the SDK; `method` returns what the SDK expects when a handler is registered. */
export async function load(version) {
  if (version === '1') {
    const base = '@modelcontextprotocol/sdk';
    const [{ Client }, stdio, http, types] = await Promise.all(
      ['client/index.js', 'client/stdio.js', 'client/streamableHttp.js', 'types.js'].map((file) => import(`${base}/${file}`)),
    );
    const schemas = {
      'sampling/createMessage': types.CreateMessageRequestSchema,
      'elicitation/create': types.ElicitRequestSchema,
      'roots/list': types.ListRootsRequestSchema,
      'notifications/message': types.LoggingMessageNotificationSchema,
      'notifications/resources/updated': types.ResourceUpdatedNotificationSchema,
    };
    return {
      client: (capabilities) => new Client({ name: 'interop', version: '1' }, { capabilities }),
      method: (name) => schemas[name],
      // The SDK 1.x takes a schema of the result before the options.
      call: (client, params, options) => client.callTool(params, undefined, options),
      revision: () => types.LATEST_PROTOCOL_VERSION,
      ...stdio,
      ...http,
    };
  }
  const base = '@modelcontextprotocol/client';
  const [{ Client, StreamableHTTPClientTransport }, stdio] = await Promise.all([import(base), import(`${base}/stdio`)]);
  return {
    client: (capabilities, mode) =>
      new Client({ name: 'interop', version: '1' }, { capabilities, versionNegotiation: { mode: negotiation(mode) } }),
    method: (name) => name,
    call: (client, params, options) => client.callTool(params, options),
    revision: (client) => client.getNegotiatedProtocolVersion(),
    StreamableHTTPClientTransport,
    ...stdio,
  };
}

/** Connects a client to the server that a command starts, or to a URL. */
export async function connect(sdk, client, [command, ...args], headers = {}) {
  const transport = command.startsWith('http://')
    ? new sdk.StreamableHTTPClientTransport(new URL(command), { requestInit: { headers } })
    : new sdk.StdioClientTransport({ command, args });
  await client.connect(transport);
}
