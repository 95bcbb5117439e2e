// Keeps the mock servers of the suite on loopback: they would listen on every interface.
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
  // A name would be looked up first, and some mocks read their own address right away.
  bind.call(this, LOOPBACK, port, 4, options.backlog ?? 511);
  return this;
};
