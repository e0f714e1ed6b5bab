// The view of the archives: what is archived of a URL, and a page with its record beside it.
//
// Archived pages are hostile. Their frame has a sandbox without any permission, and the agent sends them with the same
// sandbox, so that their scripts do not run and their requests have no cookie.

import { call } from './api.js';
import { el, bytes, count, day, table } from './dom.js';

const pageSize = 50;
const kinds = [['EXACT', 'this URL'], ['PREFIX', 'URLs that begin with it'], ['HOST', 'its host'],
  ['DOMAIN', 'its host and all below']];

// stamp returns a time as the paths of archived pages have it.
const stamp = (time) => new Date(time).toISOString().replace(/\D/g, '').slice(0, 14);

export function archive(main, crawl, chosen) {
  let asked = 0;
  let pages = ['']; // where each page up to the shown one begins
  const url = el('input', { type: 'search', id: 'archive-url', placeholder: 'https://www.example.org/', required: true,
    autocomplete: 'off', spellcheck: 'false' });
  const kind = el('select', { id: 'archive-match' }, kinds.map(([value, name]) => el('option',
    { value: `CAPTURE_MATCH_${value}`, selected: value === 'PREFIX' }, name)));
  const found = el('p', { class: 'quiet', role: 'status', id: 'captures-found' },
    'The search knows every response up to the last one, also in the files that the agents are writing now.');
  const list = el('div', { id: 'captures' });
  const earlier = el('button', { type: 'button', id: 'earlier', hidden: true }, 'Page before');
  const later = el('button', { type: 'button', id: 'later', hidden: true }, 'Next page');
  const viewer = el('div', { id: 'viewer' });
  main.append(el('section', { class: 'card' }, el('h2', {}, 'Archives'), el('form', { class: 'bar find', submit: (e) => {
    e.preventDefault();
    pages = [''];
    load();
  } }, el('label', { class: 'long' }, 'URL or host', url), el('label', {}, 'Find', kind),
  el('button', { class: 'main', id: 'archive-find' }, 'Search')), found, list,
  el('div', { class: 'actions' }, earlier, later)), viewer);

  async function load() {
    const mine = ++asked;
    found.textContent = 'The agents search…';
    try {
      const began = performance.now();
      const r = await call('Captures', { url: url.value.trim(), match: kind.value, limit: pageSize,
        after: pages[pages.length - 1] });
      if (mine !== asked) return;
      const all = r.captures || [];
      found.textContent = (all.length === 0 ? 'Nothing of this is archived.'
        : `${count(all.length)} capture${all.length > 1 ? 's' : ''} in ${Math.round(performance.now() - began)} ms`
          + (r.next ? ', and more' : ''))
        + (r.silent || []).map((a) => `; ${a.agent} does not answer: ${a.error}`).join('');
      list.replaceChildren(all.length === 0 ? '' : table([
        { name: 'URL', class: 'wide', cell: (c) => el('button', { type: 'button', class: 'link',
          click: () => open(c, r.key) }, c.url) },
        { name: 'Time', cell: (c) => (c.time ? day(c.time) : '–') },
        { name: 'Status', class: 'n', cell: (c) => c.status || '' },
        { name: 'Type', cell: (c) => (c.revisit ? 'as before' : c.mime || '') },
        { name: 'Stored', class: 'n', cell: (c) => bytes(c.length) },
        { name: 'Agent', cell: (c) => c.agent || '' },
      ].filter((c) => c.name !== 'Agent' || all.some((x) => x.agent)), all));
      earlier.hidden = pages.length === 1;
      later.hidden = !r.next;
      later.onclick = () => { pages.push(r.next); load(); };
      earlier.onclick = () => { pages.pop(); load(); };
    } catch (e) {
      found.textContent = '';
      if (e.code === 'invalid_argument') found.textContent = e.message;
      else crawl.tell(e);
    }
  }

  // open shows a capture in a frame, and its record beside it.
  async function open(c, key) {
    const about = el('div', { id: 'record' }, el('p', { class: 'quiet' }, 'The record is read…'));
    const moved = el('p', { class: 'warn', role: 'status', id: 'moved', hidden: true },
      'The frame has followed a link. The record is that of the page above. ');
    const at = c.time ? stamp(c.time) : stamp(Date.now());
    const src = `/archive/${encodeURIComponent(key)}/${at}?u=${encodeURIComponent(c.url)}`;
    const frame = el('iframe', { sandbox: '', referrerpolicy: 'no-referrer', title: 'The archived page', id: 'page', src });
    let loads = 0;
    frame.addEventListener('load', () => { loads++; moved.hidden = loads < 2; });
    moved.append(el('button', { type: 'button', click: () => { loads = 0; frame.src = src; } }, 'Back to the page'));
    viewer.replaceChildren(el('section', { class: 'card' }, el('div', { class: 'bar' },
      el('h2', { class: 'wide', tabindex: -1, id: 'capture-url' }, c.url),
      el('button', { type: 'button', click: () => viewer.replaceChildren() }, 'Close')),
    el('p', { class: 'quiet' }, `${c.time ? day(c.time) : ''}${c.agent ? `, at agent ${c.agent}` : ''}. Scripts, forms and `
      + 'frames of the page are off. What the page lacks is not in the archives.'), moved,
    el('div', { class: 'reader' }, frame, about)));
    document.getElementById('capture-url').focus();
    try {
      const r = await call('Record', { agent: c.agent || '', file: c.file, offset: c.offset || 0 });
      const part = (name, fields) => [el('h3', {}, name), el('dl', {}, (fields || []).flatMap((f) => [
        el('dt', {}, f.name), el('dd', {}, f.value || '')]))];
      about.replaceChildren(...part('Place', [{ name: 'File', value: c.file }, { name: 'Offset', value: c.offset || 0 },
        { name: 'Body', value: `${(r.size || 0) >= 0 ? bytes(r.size) : 'of unknown size'}, in ${r.body_file || c.file}` },
        r.truncated && { name: 'Incomplete', value: r.truncated }].filter(Boolean)),
      ...part('WARC record', r.warc), ...part(`HTTP response, status ${r.status || '–'}`, r.http));
    } catch (e) {
      about.replaceChildren(el('p', { class: 'bad' }, e.message));
      if (e.code === 'unauthenticated') crawl.tell(e);
    }
  }

  if (chosen) {
    url.value = chosen;
    kind.value = 'CAPTURE_MATCH_HOST';
    load();
  }
  return { search: url, leave: () => { asked++; } };
}
