// Makes every server in this Node process listen on 127.0.0.1 only. The mock servers of the conformance suite, and some
// peers of `interop`, would otherwise listen on every interface.
'use strict';
const net = require('net');
const LOOPBACK = '127.0.0.1';
const bind = net.Server.prototype._listen2;
if (typeof bind !== 'function') throw new Error('this Node cannot bind at once; use another');

net.Server.prototype.listen = function (...given) {
  const [first] = given;
  const options = typeof first === 'object' && first !== null ? first : { port: first };
  if (options.path !== undefined || options.fd !== undefined || options.handle !== undefined) {
    throw new Error('only ports are listened on here');
  }
  const told = given.find((one) => typeof one === 'function');
  if (told) this.once('listening', told);
  const port = Number(typeof options.port === 'function' ? 0 : (options.port ?? 0));
  // Binds synchronously to an address, not a name: a name would be resolved first, but some mock servers read their own
  // address right after this call.
  bind.call(this, LOOPBACK, port, 4, options.backlog ?? 511);
  return this;
};
