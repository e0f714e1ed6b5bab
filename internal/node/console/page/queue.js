// The view of the queue: which hosts have the most links that wait, and the links themselves, page by page.

import { call } from './api.js';
import { el, count, day, table } from './dom.js';

const hostsMost = 10;
const linksMost = 50; // of a page

export function queue(main, crawl, chosen) {
  const host = el('input', { type: 'search', id: 'queue-host', placeholder: 'www.example.org', autocomplete: 'off',
    spellcheck: 'false', value: chosen });
  const pattern = el('input', { type: 'search', id: 'queue-pattern', placeholder: '/calendar/', autocomplete: 'off',
    spellcheck: 'false' });
  const hosts = el('div', { id: 'queue-hosts' });
  const found = el('p', { class: 'quiet', role: 'status', id: 'queue-found' });
  const list = el('div', { id: 'queue-links' });
  const first = el('button', { type: 'button', id: 'queue-first', disabled: true, click: () => load('') },
    'First page');
  const next = el('button', { type: 'button', id: 'queue-next', disabled: true, click: () => load(token) },
    'Next page');
  main.append(el('section', { class: 'card' }, el('h2', {}, 'Hosts with the most queued links'), hosts),
    el('section', { class: 'card' }, el('form', { class: 'bar', submit: (e) => {
      e.preventDefault();
      load('');
    } }, el('h2', {}, 'Links that wait'), el('label', {}, 'Host', host), el('label', {}, 'URL matches', pattern),
    el('button', { id: 'queue-go' }, 'Show')), found, list, el('div', { class: 'actions' }, first, next)));
  let token = '';
  let asked = 0;

  const told = (a) => (a.agent ? `${a.agent}: ` : '')
    + (a.error || `${count(a.matched)} of ${count(a.waiting)} links`);
  async function load(from) {
    const mine = ++asked;
    found.textContent = 'The agents read their queues…';
    try {
      const r = await call('Queue', { host: host.value.trim(), pattern: pattern.value.trim(), limit: linksMost,
        token: from });
      if (mine !== asked) return;
      const links = r.links || [];
      token = r.token || '';
      if (links.length === 0 && token) { // an agent still reads a large queue
        setTimeout(() => { if (mine === asked) load(token); }, 500);
        return;
      }
      found.textContent = (r.agents || []).map(told).join('; ') || (links.length === 0 ? 'No link waits.' : '');
      list.replaceChildren(...(links.length === 0 ? [] : [table([
        { name: 'URL', class: 'wide', cell: (l) => l.url },
        { name: 'Agent', cell: (l) => l.agent || '' },
        { name: 'Depth', class: 'n', cell: (l) => l.depth || 0 },
        { name: 'State', cell: (l) => el('span', { class: 'badge quiet' }, l.state) },
        { name: 'Due', cell: (l) => (l.due ? day(l.due) : '') },
        { name: 'From', class: 'wide', cell: (l) => l.why || l.via || 'a seed' },
      ].filter((c) => c.name !== 'Agent' || links.some((l) => l.agent)), links)]));
      next.disabled = !token;
      first.disabled = !from;
    } catch (e) {
      if (mine !== asked) return;
      found.textContent = e.message;
      if (e.code === 'unauthenticated') crawl.tell(e);
    }
  }
  async function most() {
    try {
      const all = ((await call('Hosts', { by: 'HOST_ORDER_QUEUE', limit: hostsMost })).hosts || [])
        .filter((h) => h.queued > 0);
      hosts.replaceChildren(all.length === 0 ? el('p', { class: 'quiet' }, 'No host has a link in its queue.') : table([
        { name: 'Host', class: 'wide', cell: (h) => el('button', { type: 'button', class: 'link', click: () => {
          host.value = h.host;
          load('');
        } }, h.host) },
        { name: 'Agent', cell: (h) => h.agent || '' },
        { name: 'State', cell: (h) => h.state },
        { name: 'Queued', class: 'n', cell: (h) => count(h.queued) },
      ].filter((c) => c.name !== 'Agent' || all.some((h) => h.agent)), all));
    } catch (e) {
      crawl.tell(e);
    }
  }
  most();
  load('');
  return { search: host, leave: () => { asked++; } };
}
