// Drives the console of a real kernel in Chromium: every page at three widths, dark and light, with and without
// JavaScript, and each action. Prints a line of JSON: what was looked at, and the faults.
//
// node browser.mjs MGP ECHO WORKBENCH HOSTILE OUT
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const require = createRequire(join(process.cwd(), 'package.json'));
const { chromium } = require('playwright-core');
const axeSource = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

const [mgp, echo, workbench, hostile, out] = process.argv.slice(2);
const WIDTHS = [360, 800, 1400];
const SCHEMES = ['light', 'dark'];
const ARGUMENTS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking',
  '--disable-component-update', '--disable-sync', '--no-first-run', '--no-default-browser-check'];
const state = join(out, 'state');
const home = join(out, 'home');
const changed = join(out, 'changed');
const faults = [];
let looked = 0, clicked = 0, shots = 0;

const fault = (text) => { if (faults.length < 100) faults.push(text); };
const check = (is, text) => { if (!is) fault(text); };
const env = { PATH: process.env.PATH, HOME: home, LANG: 'C.UTF-8' };
const run = (...args) => execFileSync(mgp, [...args, '--state', state], { env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const until = async (what, is) => {
  for (let round = 0; round < 300; round += 1) {
    const found = await is();
    if (found) return found;
    await sleep(100);
  }
  throw new Error(`timeout: ${what}`);
};

const start = async () => {
  rmSync(out, { recursive: true, force: true });
  for (const folder of [home, state]) mkdirSync(folder, { recursive: true, mode: 0o700 });
  const config = join(out, 'mgp.toml');
  const server = (id, command, args, more) => `[[servers]]\nid = '${id}'\ncommand = '${command}'\nargs = ${JSON.stringify(args)}\n${more}`;
  const open = '[servers.mgp]\ndefault_policy = "opt-out"\n';
  writeFileSync(config, [
    '[limits]\ncalls_per_hour = 500\n[kernel]\napproval_timeout = "60s"\n',
    server('desk', echo, [], `${open}risk = { echo = "dangerous" }\n`),
    server('bench', workbench, [], open),
    server('files', process.execPath, [hostile], `env = { HOSTILE_CHANGED = '${changed}' }\n${open}`),
  ].join(''));
  const admin = JSON.parse(run('keys', 'add', 'ada', '--admin', '--json')).key;
  const agent = JSON.parse(run('keys', 'add', 'coder', '--json')).key;
  run('keys', 'add', 'nightly', '--expires', '30d', '--permission', 'tools.list');
  const ready = join(out, 'ready.json');
  started.kernel = spawn(mgp, ['serve', '--http', '127.0.0.1:0', '--console', '--config', config, '--state', state, '--ready-file', ready], { env, stdio: 'ignore' });
  await until('the kernel serves', () => existsSync(ready));
  const url = JSON.parse(readFileSync(ready, 'utf8')).http.replace('/mcp', '');
  await until('tools are listed', () => JSON.parse(run('servers', 'ls', '--json')).every((one) => one.tools > 0 || one.lacks));
  return { url, admin, agent };
};

const started = { kernel: undefined };
process.on('exit', () => started.kernel?.kill());
const kernel = await start();
const base = `${kernel.url}/console`;

// Calls a tool as an agent; the answer comes once an operator has decided.
const call = (tool, args) => fetch(`${kernel.url}/tools/${tool}`, {
  method: 'POST', headers: { authorization: `Bearer ${kernel.agent}`, 'content-type': 'application/json' }, body: JSON.stringify(args),
}).then(async (answer) => { if (process.env.DEBUG) console.error(answer.status, await answer.text()); return answer.status; });
const waiting = (count) => until(`${count} calls wait`, () => JSON.parse(run('approvals', 'ls', '--json')).filter((one) => one.state === 'open' && one.kind === 'call').length === count);

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ARGUMENTS });

const open = async (width, scheme, scripts) => {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: scheme, javaScriptEnabled: scripts, locale: 'en-US', timezoneId: 'Asia/Tokyo' });
  const page = await context.newPage();
  page.setDefaultTimeout(15000);
  page.on('console', (message) => { if (['error', 'warning'].includes(message.type()) && !/status of (40[01]|422)/.test(message.text())) fault(`console: ${message.text()}`); });
  page.on('pageerror', (error) => fault(`script: ${error.message}`));
  page.on('request', (request) => check(request.url().startsWith(kernel.url), `a request leaves the origin: ${request.url()}`));
  return page;
};

const logIn = async (page, path = '') => {
  await page.goto(`${base}${path}`);
  await page.fill('input[name=key]', kernel.admin);
  await page.click('button.main');
  await page.waitForSelector('header nav');
};

const faultsOf = async (page) => page.evaluate(`${axeSource}; axe.run(document, { resultTypes: ['violations'] })
  .then((found) => found.violations.filter((one) => ['serious', 'critical'].includes(one.impact))
    .map((one) => one.id + ': ' + one.nodes.slice(0, 3).map((node) => node.html.slice(0, 120)).join(' | ')))`);

// Looks at the open page: width, faults for people with other senses, text that became markup; keeps a picture.
const look = async (page, name, scripts = true) => {
  looked += 1;
  await page.screenshot({ path: join(out, `${name}.png`), fullPage: true });
  shots += 1;
  if (!scripts) return;
  const width = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
  check(width[0] <= width[1], `${name}: ${width[0]} px wide in ${width[1]} px`);
  check(await page.evaluate(() => window.hacked === undefined && !document.querySelector('#content script, #content img')), `${name}: a text became markup`);
  for (const found of await faultsOf(page)) fault(`${name}: ${found}`);
};

const PAGES = [
  ['inbox', ''], ['servers', '/servers'], ['server', '/servers/files'], ['record', '/record?verify=yes'], ['access', '/access?agent=coder&tool=desk.echo'],
  ['search', '/search?query=add+two+numbers&agent=coder'], ['configuration', '/configuration'],
];

// Presses a button of the page, and expects its notice. The page does not change while the pointer is over a button,
// and a button answers no click within 0.6 s after a change.
const press = async (page, selector, expected, failed = false) => {
  clicked += 1;
  await page.locator(selector).first().hover();
  await sleep(700);
  await Promise.all([page.waitForURL(/[?&](done|failed)=/), page.locator(selector).first().click()]);
  const notice = await page.locator(failed ? 'p.failed' : 'p.done').first().textContent();
  check(notice.includes(expected), `${selector}: "${notice}" instead of "${expected}"`);
};

const decide = async (page, tool, args, answer, status) => {
  const ended = call(tool, args);
  await waiting(1);
  await page.goto(base);
  await press(page, `button[value=${answer}]`, '');
  check((await ended) === status, `${answer}: status ${await ended} instead of ${status}`);
};

// Enter in a field of a form allows nothing: the page shows the reason at the field and keeps the typed text, and without
// scripts the first button of the form shows it on a new page.
const pressEnter = async (page, field, scripts) => {
  clicked += 1;
  const at = page.locator(field).first();
  await at.fill('a reason');
  await at.press('Enter');
  if (!scripts) return page.waitForSelector('text=Nothing was changed');
  const [message, text] = await at.evaluate((input) => [input.validationMessage, input.value]);
  check(message.includes('Nothing was changed') && text === 'a reason', `Enter in ${field}: "${message}", "${text}"`);
};

const enter = async (page, pass, scripts) => {
  const ended = [call('desk.echo', { message: `enter ${pass}` }), call('desk.echo', { message: `again ${pass}` })];
  await waiting(2);
  await page.goto(base);
  await pressEnter(page, 'article[aria-labelledby^="a-"] input[name=because]', scripts);
  await page.goto(base);
  for (const box of await page.locator('input[type=checkbox]').all()) await box.check();
  await pressEnter(page, 'section[aria-labelledby=several] input[name=because]', scripts);
  await page.goto(`${base}/access`);
  for (const [name, value] of [['agent', 'coder'], ['server', 'bench']]) await page.fill(`form[action$="/access/grant"] input[name=${name}]`, value);
  await pressEnter(page, 'form[action$="/access/grant"] input[name=because]', scripts);
  await waiting(2);
  check(JSON.parse(run('access', 'query', 'coder', 'bench', '--json')).entries.length === 0, 'Enter grants nothing');
  await page.goto(`${base}?done=Everything+is+safe`);
  check((await page.locator('text=Everything is safe').count()) === 0, 'a link cannot show a result');
  for (const _ of ended) { await page.goto(base); await press(page, 'button[value=deny]', 'denied'); }
  check((await Promise.all(ended)).every((status) => status === 403), 'the calls waited until they were denied');
};

const actions = async (page, pass, scripts) => {
  await enter(page, pass, scripts);
  await decide(page, 'desk.echo', { message: `once ${pass}` }, 'once', 200);
  await decide(page, 'desk.echo', { message: `no ${pass}` }, 'deny', 403);
  await decide(page, 'desk.echo', { message: `like this ${pass}` }, 'like', 200);
  check((await call('desk.echo', { message: `like this ${pass}` })) === 200, 'a call like the one that was approved waits');
  await decide(page, 'desk.echo', { message: `for an hour ${pass}` }, 'hour', 200);
  check((await call('desk.echo', { message: `another ${pass}` })) === 200, 'a call within the hour waits');
  await page.goto(`${base}/access`);
  const approvals = 'form[action$="/withdraw"]:has(input[value^="call-"]) button';
  for (let left = await page.locator(approvals).count(); left > 0; left -= 1) await press(page, approvals, 'revoked');
  check((await page.locator(approvals).count()) === 0, 'every approval of later calls was withdrawn');
  const ended = [call('desk.echo', { message: `one ${pass}` }), call('desk.echo', { message: `two ${pass}` })];
  await waiting(2);
  await page.goto(base);
  for (const box of await page.locator('input[type=checkbox]').all()) await box.check();
  await press(page, 'section[aria-labelledby=several] button[value=once]', 'allowed once');
  check((await Promise.all(ended)).every((status) => status === 200), 'two calls were approved at once');
  await decide(page, 'desk.echo', { message: `never ${pass}` }, 'never', 403);
  await page.goto(`${base}/access`);
  await press(page, 'form[action$="/access/revoke"] button[aria-label*="coder"]', 'revoked');

  await page.goto(`${base}/access`);
  for (const [name, value] of [['agent', 'coder'], ['server', 'bench'], ['expires', '1h'], ['because', 'a test']]) await page.fill(`form[action$="/access/grant"] input[name=${name}]`, value);
  await press(page, 'form[action$="/access/grant"] button[value=allow]', 'allow');
  await press(page, 'form[action$="/access/revoke"] button[aria-label*="coder bench"]', 'revoked');

  await page.goto(`${base}/servers/bench`);
  await press(page, 'button[value=stop]', 'disconnected');
  await press(page, 'button[value=start]', 'bench');
  await page.goto(`${base}/configuration`);
  await press(page, 'form[action$="/configuration"] button', 'nothing has changed');

  await page.goto(`${base}/record`);
  await page.selectOption('select[name=type]', 'ACCESS_GRANTED');
  await page.locator('form[action$="/record"] button').click();
  check((await page.locator('tbody tr').count()) > 0, 'the record is filtered');
  await page.locator('tbody a').first().click();
  check((await page.locator('svg').count()) > 0, 'the story of a call is a picture');
};

// Changes the definition of the hostile server, so that it waits in the inbox.
const changeDefinition = async (page) => {
  writeFileSync(changed, '');
  await page.goto(`${base}/servers/files`);
  await press(page, 'button[value=restart]', 'files');
  await until('the changed definition waits', async () => { await page.goto(base); return (await page.locator('form[action$="/definitions"]').count()) > 0; });
};

const everyPage = async () => {
  for (const scheme of SCHEMES) {
    for (const width of WIDTHS) {
      const page = await open(width, scheme, true);
      const name = (of) => `${of}-${width}-${scheme}`;
      await page.goto(base);
      await look(page, name('login'));
      await logIn(page);
      for (const [of, path] of PAGES) { await page.goto(`${base}${path}`); await look(page, name(of)); }
      await page.goto(base);
      await page.locator('a[href*="/call/"]').first().click();
      await look(page, name('call'));
      await page.goto(`${base}/record`);
      await page.locator('tbody a').first().click();
      await look(page, name('story'));
      await page.context().close();
    }
  }
};

// An open page shows a call that begins to wait, and a link in a message leads to it after the login.
const live = async () => {
  const page = await open(1400, 'light', true);
  await logIn(page);
  const pending = call('desk.echo', { message: 'live' });
  await page.waitForSelector('text=coder → desk.echo');
  check((await page.title()).startsWith('('), 'the title counts what waits');
  const time = await page.locator('time').first().textContent();
  check(time.endsWith(' GMT+9'), `a time in the zone of the browser: ${time}`);
  const news = await page.locator('#news').textContent();
  check(news === 'Waiting for you: 1', `a screen reader announces: ${news}`);
  const [{ id }] = JSON.parse(run('approvals', 'ls', '--json')).filter((one) => one.state === 'open' && one.kind === 'call');
  const other = await open(360, 'dark', true);
  await logIn(other, `/call/${id}`);
  check(new URL(other.url()).pathname === `/console/call/${id}`, `the link leads to ${other.url()}`);
  await press(other, 'button[value=once]', 'allowed once');
  const status = await pending;
  check(status === 200, `the call that was approved on the page answers ${status}`);
  await page.waitForSelector('text=Nothing waits for you');
  // The keyboard reaches the content at once.
  await page.goto(base);
  await page.keyboard.press('Tab');
  check(await page.evaluate(() => document.activeElement?.className === 'skip'), 'the first Tab offers to skip the navigation');
  await other.context().close();
  await page.context().close();
};

// A click that was aimed at something else answers nothing, and a page keeps the button that has the focus.
const aim = async () => {
  const page = await open(1400, 'light', true);
  await logIn(page);
  const ended = ['one', 'two', 'three'].map((number) => call('desk.echo', { message: `aim at ${number}` }));
  await waiting(3);
  await page.goto(base);
  await page.locator('button[value=once]').first().dblclick({ delay: 50 });
  await page.waitForURL(/[?&](done|failed)=/);
  check((await page.locator('p.done').count()) === 1, 'a double click answers one call, once');
  await waiting(2);
  await page.goto(base);
  await page.locator('button[value=deny]').first().focus();
  ended.push(call('desk.echo', { message: 'aim at four' }));
  await page.waitForFunction(() => document.title.startsWith('(3)'));
  await sleep(1000);
  check(await page.evaluate(() => document.activeElement.value === 'deny'), 'a button keeps the focus while a call begins to wait');
  const changed = await page.evaluate(() => new Promise((done) => {
    const content = document.getElementById('content');
    const press = () => { content.querySelector('button[value=deny]').click(); done(true); };
    new MutationObserver(press).observe(content, { childList: true });
    setTimeout(() => done(false), 10000);
    document.activeElement.blur();
  }));
  check(changed, 'the page changes once no button has the focus');
  await sleep(500);
  await waiting(3);
  clicked += 2;
  for (let left = 3; left > 0; left -= 1) { await page.goto(base); await press(page, 'button[value=deny]', 'denied'); }
  const statuses = await Promise.all(ended);
  check(statuses.filter((status) => status === 200).length === 1, `of four calls, one was approved: ${statuses}`);
  await page.context().close();
};

// A page shows a new record by itself. Meanwhile it keeps the focus of the keyboard, the positions of scrolled parts,
// a pressed link and a chosen filter.
const keep = async () => {
  const page = await open(1400, 'light', true);
  await logIn(page);
  await page.mouse.move(1, 1);
  run('access', 'grant', 'coder', 'desk', 'echo', '--no-confirm');
  const add = () => call('desk.echo', { message: 'a note' });
  for (let number = 0; number < 20; number += 1) await add();
  await page.goto(`${base}/record`);
  await sleep(1500);
  const pathOf = (number) => page.locator('tbody a').nth(number).getAttribute('href');
  const grows = async () => {
    const first = await pathOf(0);
    await add();
    return page.waitForFunction((old) => document.querySelector('tbody a').getAttribute('href') !== old, first);
  };
  const second = await pathOf(1);
  await page.locator('tbody a').nth(1).focus();
  await grows();
  check((await page.evaluate(() => document.activeElement.getAttribute('href'))) === second, 'a link keeps the focus while the record grows');
  await page.locator('tbody a').nth(5).evaluate((link) => link.scrollIntoView());
  const read = page.locator(`tbody a[href="${await pathOf(9)}"]`);
  const topOf = () => read.evaluate((link) => link.getBoundingClientRect().top);
  const top = await topOf();
  await grows();
  check(Math.abs((await topOf()) - top) < 3, 'a line of a scrolled page stays where it is while the record grows');
  await page.goto(`${base}/record`);
  await sleep(1500);
  const pressed = await pathOf(0);
  await page.locator('tbody a').first().hover();
  await page.mouse.down();
  await add();
  await sleep(3000);
  await page.mouse.up();
  await page.waitForURL(/[/]story[/]/).catch(() => {});
  check(page.url().endsWith(pressed), `a link that is pressed while the record grows leads to its story, not to ${page.url()}`);
  await page.mouse.move(1, 1);
  await page.goto(`${base}/record`);
  await sleep(1500);
  await page.locator('select[name=type]').selectOption('ACCESS_GRANTED');
  await page.evaluate(() => document.activeElement.blur());
  await add();
  await sleep(3000);
  check((await page.inputValue('select[name=type]')) === 'ACCESS_GRANTED', 'a chosen filter remains while the record grows');
  await page.goto(`${base}/servers/files`);
  await sleep(1500);
  await page.route('**/servers/files', async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, body: (await response.text()).replace('</pre>', 'one more line</pre>') });
  });
  const ignored = page.evaluate(() => new Promise((done) => {
    const content = document.getElementById('content');
    document.addEventListener('click', (event) => { done(event.defaultPrevented); event.preventDefault(); });
    new MutationObserver(() => content.querySelector('form[method=post] button').click()).observe(content, { childList: true });
    setTimeout(() => done(true), 10000);
  }));
  await add();
  check(!(await ignored), 'a button answers while only the log of its server grows');
  await page.unroute('**/servers/files');
  run('access', 'revoke', 'coder', 'desk', 'echo');
  await page.goto(`${base}/servers/files`);
  await sleep(1500);
  const log = page.locator('#log');
  await log.evaluate((part) => { part.scrollTop = 100; });
  check((await log.evaluate((part) => part.scrollTop)) === 100, 'a long log is scrolled');
  const length = (await log.textContent()).length;
  run('servers', 'restart', 'files');
  await page.waitForFunction((old) => document.getElementById('log').textContent.length > old, length);
  check((await log.evaluate((part) => part.scrollTop)) === 100, 'a log stays scrolled while it grows');
  await page.context().close();
};

// The hostile definition waits from the beginning.
const approveDefinition = async () => {
  const page = await open(800, 'dark', true);
  await logIn(page);
  await look(page, 'definition-800-dark');
  await press(page, 'form[action$="/definitions"] button[value=approve]', 'files.delete_all: approved');
  // The permissions that a server asked for.
  await press(page, 'button[value=once]', 'granted to all tools of the server');
  await page.context().close();
};

try {
  await approveDefinition();
  await live();
  await aim();
  await keep();
  for (const [scripts, width] of [[true, 1400], [false, 360]]) {
    const page = await open(width, 'light', scripts);
    await logIn(page);
    await actions(page, `at ${width}`, scripts);
    await page.context().close();
  }
  const page = await open(1400, 'light', true);
  await logIn(page);
  const path = `<img src=x onerror=window.hacked=1>\u202e/home/ada/projects/${'deep/'.repeat(400)}`;
  const pending = [call('files.delete_all', { path, 'a</dt><script>window.hacked=1</script>': { recursive: true } }), call('desk.echo', { message: 'Please post the quarterly report.' })];
  await waiting(2);
  await changeDefinition(page);
  await call('bench.add', { a: 1, b: 2 });
  await everyPage();
  await page.goto(base);
  await press(page, 'form[action$="/definitions"] button[value=approve]', 'files.delete_all');
  for (let left = pending.length; left > 0; left -= 1) { await page.goto(base); await press(page, 'button[value=deny]', 'denied'); }
  await Promise.all(pending);
  await page.locator('form[action$="/logout"] button').click();
  await page.goto(`${base}/servers`);
  check((await page.locator('input[name=key]').count()) === 1, 'after the logout the page asks for a login');
} catch (error) {
  fault(error.stack ?? String(error));
  let number = 0;
  for (const context of browser.contexts()) for (const page of context.pages()) await page.screenshot({ path: join(out, `stopped-${number += 1}.png`), fullPage: true }).catch(() => {});
} finally {
  await browser.close().catch(() => {});
  started.kernel.kill();
}
console.log(JSON.stringify({ looked, clicked, shots, faults: [...new Set(faults)] }));
