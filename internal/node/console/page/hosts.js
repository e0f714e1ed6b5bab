// The view of the hosts: the list of all hosts of the cluster, and all that is known of one.

import { call } from './api.js';
import { el, count, bytes, took, span, table, clock } from './dom.js';
import { act } from './actions.js';

const kinds = { blocked: 'bad', paused: 'warn', fetching: 'good', resolving: 'good', ready: 'good' };
const pageSize = 50;

export function hosts(main, crawl, chosen) {
  if (chosen) return host(main, crawl, chosen);
  const search = el('input', { type: 'search', id: 'search', placeholder: 'part of a name', autocomplete: 'off',
    spellcheck: 'false' });
  const by = el('select', { id: 'by' }, [['QUEUE', 'queue'], ['ERRORS', 'errors'], ['BYTES', 'bytes'],
    ['LATENCY', 'latency'], ['PAGES', 'pages'], ['NAME', 'name']]
    .map(([value, name]) => el('option', { value: `HOST_ORDER_${value}` }, name)));
  const list = el('div', { id: 'hosts' });
  const found = el('p', { class: 'quiet', role: 'status', id: 'found' });
  const earlier = el('button', { type: 'button', id: 'earlier' }, 'Page before');
  const later = el('button', { type: 'button', id: 'later' }, 'Next page');
  main.append(el('section', { class: 'card' }, el('div', { class: 'bar' }, el('h2', {}, 'Hosts'),
    el('label', {}, 'Search', search), el('label', {}, 'Sort by', by)), found, list,
  el('div', { class: 'actions' }, earlier, later)));
  let pages = ['']; // where each page up to the shown one begins
  let asked = 0;

  async function load() {
    const mine = ++asked;
    try {
      const r = await call('Hosts', { search: search.value.trim(), by: by.value, limit: pageSize,
        after: pages[pages.length - 1] });
      if (mine !== asked) return; // the user has typed on
      const first = (pages.length - 1) * pageSize;
      const all = r.hosts || [];
      found.textContent = all.length === 0 ? 'No host.'
        : `${count(first + 1)}–${count(first + all.length)} of ${count(r.matches)} hosts`
          + (r.silent || []).map((a) => `; ${a.agent} does not answer`).join('');
      list.replaceChildren(table([
        { name: 'Host', class: 'wide', cell: (h) => el('button', { type: 'button', class: 'link',
          click: () => { location.hash = `hosts/${encodeURIComponent(h.host)}`; } }, h.host) },
        { name: 'Agent', cell: (h) => h.agent || '' },
        { name: 'State', cell: (h) => el('span', { class: `badge ${kinds[h.state] || 'quiet'}` }, h.state) },
        { name: 'Queued', class: 'n', cell: (h) => count(h.queued) },
        { name: 'At least', class: 'n', cell: (h) => span(h.leastS) },
        { name: 'Pages', class: 'n', cell: (h) => count(h.pages) },
        { name: 'URLs', class: 'n', cell: (h) => count(h.urls_finished) },
        { name: 'Errors', class: 'n', cell: (h) => count(h.errors) },
        { name: 'Denied', class: 'n', cell: (h) => count(h.robots_denied) },
        { name: 'Received', class: 'n', cell: (h) => bytes(h.bytes) },
        { name: 'Latency', class: 'n', cell: (h) => took(h.latency_s) },
      ].filter((c) => c.name !== 'Agent' || all.some((h) => h.agent)), all));
      earlier.disabled = pages.length === 1;
      later.disabled = !r.next;
      later.onclick = () => { pages.push(r.next); load(); };
      earlier.onclick = () => { pages.pop(); load(); };
    } catch (e) {
      crawl.tell(e);
    }
  }
  let wait = 0;
  const again = () => { pages = ['']; load(); };
  search.addEventListener('input', () => { clearTimeout(wait); wait = setTimeout(again, 150); });
  by.addEventListener('change', again);
  load();
  return { search, leave: () => { clearTimeout(wait); asked++; } };
}

// host shows one host: why it is not being crawled now, its last visits, and what can be done.
function host(main, crawl, name) {
  const reasons = el('div', { id: 'reasons' });
  const visits = el('div', { id: 'visits' });
  const counts = el('p', { class: 'quiet', id: 'counts' });
  const link = el('input', { type: 'text', id: 'explain-url', placeholder: `https://${name}/…`, autocomplete: 'off',
    spellcheck: 'false' });
  const find = el('form', { class: 'bar find', id: 'explain', submit: (e) => {
    e.preventDefault();
    load();
  } }, el('label', { class: 'long' }, 'A URL of this host', link),
  el('button', { id: 'explain-go' }, 'Explain'));
  const buttons = el('div', { class: 'actions', id: 'host-actions' });
  main.append(el('section', { class: 'card' }, el('div', { class: 'bar' }, el('h2', { class: 'wide' }, name),
    el('a', { href: `#archive/${encodeURIComponent(name)}` }, 'Its archived pages'), el('a', { href: '#hosts' },
      'All hosts')), counts, find, reasons, crawl.role === 'operator' && buttons),
  el('section', { class: 'card' }, el('h2', {}, 'Last visits'), visits));

  async function load() {
    try {
      const [why, log, found] = await Promise.all([call('Explain', { host: name, url: link.value.trim() }),
        call('Log', { host: name, limit: 30 }),
        call('Hosts', { search: name, by: 'HOST_ORDER_NAME', limit: 50 })]);
      const mine = (found.hosts || []).filter((h) => h.host === name);
      counts.textContent = mine.map((h) => (h.agent ? `${h.agent}: ` : '')
        + `${count(h.pages)} pages, ${count(h.urls_finished)} URLs, ${count(h.errors)} errors, ${bytes(h.bytes)}, `
        + `${count(h.queued)} queued${h.least_s ? `, which take at least ${span(h.least_s)}` : ''}, latency ${took(h.latency_s)}`).join('; ');
      reasons.replaceChildren(...(why.answers || []).map((a) => el('pre', { class: a.error ? 'bad' : '' },
        (a.agent ? `agent ${a.agent}:\n` : '') + (a.error || a.text))));
      const lines = (log.lines || []).reverse();
      visits.replaceChildren(lines.length === 0 ? el('p', { class: 'quiet' }, 'No visit in the last lines of the log.')
        : visitTable(lines));
      const button = (text, kind, does) => el('button', { type: 'button', class: kind, id: does,
        click: () => act[does](crawl, name, load) }, text);
      buttons.replaceChildren(button('Block', '', 'block'), button('Unblock', '', 'unblock'),
        button('Drop links', 'danger', 'drop'));
    } catch (e) {
      crawl.tell(e);
    }
  }
  load();
  return {};
}

// visitTable shows lines of the log.
export function visitTable(lines) {
  return table([
    { name: 'Time', cell: (l) => clock(l.ts) },
    { name: 'Agent', cell: (l) => l.agent || '' },
    { name: 'Code', class: 'n',
      cell: (l) => el('span', { class: l.status >= 400 || l.status <= 0 ? 'bad' : '' }, l.status || 0) },
    { name: 'Size', class: 'n', cell: (l) => (l.size < 0 ? '–' : bytes(l.size)) },
    { name: 'Took', class: 'n', cell: (l) => took(l.took_s || (l.status > 0 ? 1e-4 : 0)) },
    { name: 'Type', cell: (l) => l.mime || '' },
    { name: 'URL', class: 'wide', cell: (l) => l.url },
  ].filter((c) => c.name !== 'Agent' || lines.some((l) => l.agent)), lines);
}
