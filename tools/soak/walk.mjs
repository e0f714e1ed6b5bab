// walk.mjs walks a site with Playwright and the machine's Chromium, and prints what it finds: a line of JSON for each
// page, with its URL, title, text, links and files. It is a judge: it shares nothing with the crawler.
//
//   node walk.mjs [--proxy http://HOST:PORT] [--host HOST] [--tabs N] [--pages N] [--truth URL] [--pictures DIR] \
//     START...
//
// It follows links within the hosts of the start URLs, and within those that --host adds. --truth is the address of a
// list of URL, tab, text ("orbweaver testweb" serves one at /.testweb/pages): the walk fails if it misses a page, or if
// a page does not show its text. It then prints a summary on standard error.
//
// PLAYWRIGHT is the folder in which tools/soak/install.sh installs playwright-core, CHROMIUM the browser.
import { createRequire } from 'node:module';
import { mkdirSync } from 'node:fs';
import { parseArgs } from 'node:util';

const { values: options, positionals: starts } = parseArgs({
  allowPositionals: true,
  options: {
    proxy: { type: 'string' },
    host: { type: 'string', multiple: true, default: [] },
    tabs: { type: 'string', default: '2' },
    pages: { type: 'string', default: '2000' },
    truth: { type: 'string' },
    pictures: { type: 'string' },
  },
});
if (!starts.length) {
  console.error('walk.mjs: no start URL; give one');
  process.exit(2);
}
const cache = process.env.XDG_CACHE_HOME || `${process.env.HOME}/.cache`;
const folder = process.env.PLAYWRIGHT || `${cache}/orbweaver-playwright`;
const { chromium } = createRequire(import.meta.url)(`${folder}/node_modules/playwright-core`);

const pageTime = 20_000; // ms for a page, in all
const rest = 700; // ms without a request, after which a page is at rest
const scrolls = 40;

// links returns the targets of all links of the document and its open shadow roots.
const links = () => {
  const found = [];
  const look = (root) => {
    for (const e of root.querySelectorAll('*')) {
      if (e.matches('a[href], area[href]')) found.push(e.href);
      if (e.shadowRoot) look(e.shadowRoot);
    }
  };
  look(document);
  return found.map(String);
};

const text = () => {
  const parts = [];
  const look = (root) => {
    for (const n of root.childNodes) {
      if (n.nodeType === Node.TEXT_NODE) parts.push(n.data);
      if (n.nodeType === Node.ELEMENT_NODE && !n.matches('script, style, template, noscript')) look(n.shadowRoot || n);
    }
  };
  if (document.body) look(document.body);
  return parts.join(' ').replace(/\s+/g, ' ').trim();
};

// open opens all details and presses all buttons for more that were not pressed yet. It returns how many there were.
const open = () => {
  let n = 0;
  for (const d of document.querySelectorAll('details:not([open])')) { d.open = true; n++; }
  for (const b of document.querySelectorAll('button')) {
    if (/\bmore\b/i.test(b.textContent) && !b.disabled && !b.dataset.walked) { b.dataset.walked = 1; b.click(); n++; }
  }
  return n;
};

// visit opens one page in a context of its own.
async function visit(browser, url, picture) {
  const context = await browser.newContext({ ignoreHTTPSErrors: true });
  const files = new Map();
  let active = 0;
  let last = Date.now();
  context.on('request', () => { active++; last = Date.now(); });
  const ended = async (request) => {
    active--;
    last = Date.now();
    const response = await request.response().catch(() => null);
    files.set(request.url(), response ? response.status() : 0);
  };
  context.on('requestfinished', ended);
  context.on('requestfailed', ended);
  const page = await context.newPage();
  page.on('dialog', (d) => d.dismiss().catch(() => {}));
  const until = Date.now() + pageTime;
  const quiet = async () => {
    while (Date.now() < until && (active > 0 || Date.now() - last < rest)) await page.waitForTimeout(50);
  };
  try {
    await page.goto(url, { waitUntil: 'load', timeout: pageTime });
    await quiet();
    await page.waitForTimeout(1200); // for a timer of the page
    await quiet();
    for (let n = 0, still = 0; n < scrolls && still < 2 && Date.now() < until; n++) {
      const before = await page.evaluate(() => document.documentElement.scrollHeight);
      await page.evaluate(() => { scrollTo(0, document.documentElement.scrollHeight); });
      await page.waitForTimeout(200); // for the observers of the page
      await quiet();
      const opened = await page.evaluate(open);
      if (opened) await page.waitForTimeout(100);
      await quiet();
      const after = await page.evaluate(() => document.documentElement.scrollHeight);
      still = after === before && !opened ? still + 1 : 0;
    }
    if (picture) await page.screenshot({ path: picture });
    return {
      url, at: page.url(), title: await page.title(), text: await page.evaluate(text),
      links: [...new Set(await page.evaluate(links))].sort(),
      files: [...files].map(([u, status]) => ({ url: u, status })).sort((a, b) => (a.url < b.url ? -1 : 1)),
    };
  } catch (e) {
    return { url, error: String(e.message).split('\n')[0], links: [], files: [] };
  } finally {
    await context.close().catch(() => {});
  }
}

const clean = (u) => { const at = new URL(u); at.hash = ''; return at.href; };
const hosts = new Set([...starts.map((s) => new URL(s).host), ...options.host]);
const queue = starts.map(clean);
const known = new Set(queue);
const pages = new Map();
const most = Number(options.pages);
if (options.pictures) mkdirSync(options.pictures, { recursive: true });

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM || '/usr/bin/chromium',
  // The system's sandbox does not work for root.
  args: [...(process.getuid() === 0 ? ['--no-sandbox'] : []), '--disable-quic', '--ignore-certificate-errors',
    '--disable-background-networking', '--disable-component-update', '--disable-sync'],
  proxy: options.proxy ? { server: options.proxy, bypass: '<-loopback>' } : undefined,
});
const began = Date.now();
let busy = 0;
async function tab() {
  for (;;) {
    const url = queue.shift();
    if (url === undefined) {
      if (!busy) return;
      await new Promise((go) => { setTimeout(go, 50); });
      continue;
    }
    busy++;
    const picture = options.pictures && `${options.pictures}/${pages.size}-${url.replace(/[^a-z0-9.]+/gi, '_')}.png`;
    const page = await visit(browser, url, picture);
    pages.set(url, page);
    console.log(JSON.stringify(page));
    // A script may have led to another page.
    for (const link of page.at ? [page.at, ...page.links] : page.links) {
      if (!/^https?:/.test(link)) continue;
      const to = clean(link);
      if (known.has(to) || !hosts.has(new URL(to).host) || known.size >= most) continue;
      known.add(to);
      queue.push(to);
    }
    busy--;
  }
}
await Promise.all(Array.from({ length: Number(options.tabs) }, tab));
await browser.close();

const seconds = (Date.now() - began) / 1000;
const files = new Set([...pages.values()].flatMap((p) => p.files.map((f) => f.url)));
console.error(`${pages.size} pages, ${files.size} URLs, ${[...pages.values()].filter((p) => p.error).length} failed; `
  + `${seconds.toFixed(1)} s, ${(pages.size / seconds).toFixed(2)} pages/s`);
if (options.truth) {
  const list = (await (await fetch(options.truth)).text()).trim().split('\n').map((l) => l.split('\t'));
  const wrong = [];
  for (const [url, mark] of list) {
    const page = pages.get(url);
    if (!page) wrong.push(`not found: ${url}`);
    else if (!page.text?.includes(mark)) wrong.push(`without its text: ${url}`);
  }
  const wanted = new Set(list.map(([u]) => u));
  for (const url of pages.keys()) if (!wanted.has(url)) wrong.push(`not in the list: ${url}`);
  console.error(`${list.length} pages in the list; ${wrong.length} differ`);
  for (const line of wrong) console.error(line);
  if (wrong.length) process.exitCode = 1;
}
