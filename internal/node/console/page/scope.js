// The views of what the crawl wants: its scope, and the applications that share it.

import { call } from './api.js';
import { el, count, table } from './dom.js';
import { act } from './actions.js';

const limit = (n) => ((n ?? 0) < 0 ? 'no limit' : count(n));

export function scope(main, crawl) {
  const settings = el('div', { id: 'scope' });
  const changes = el('div', { id: 'scope-orders' });
  main.append(el('section', { class: 'card' }, el('h2', {}, 'Scope'), settings),
    el('section', { class: 'card' }, el('h2', {}, 'Orders that change it'), changes));

  async function load() {
    try {
      const r = await call('Scope');
      const rows = [['Scope', r.kind], ['Depth', limit(r.depth)], ['Depth within a host', limit(r.host_depth)],
        ...(r.seeds || []).map((s) => ['Seed', s]), ...(r.include || []).map((p) => ['Include', p]),
        ...(r.exclude || []).map((p) => ['Exclude', p])];
      settings.replaceChildren(table([{ name: '', class: 'line', cell: (x) => x[0] },
        { name: '', class: 'wide', cell: (x) => x[1] }], rows));
      const all = r.changes || [];
      changes.replaceChildren(all.length === 0 ? el('p', { class: 'quiet' },
        'No order changes the scope. The view Steer gives some.') : table([
        { name: 'Order', class: 'wide', cell: (c) => c.text },
        { name: 'Why', class: 'wide', cell: (c) => c.why || '' },
        crawl.role === 'operator' && { name: '', class: 'row', cell: (c) => el('button', { type: 'button',
          class: 'take-back', click: () => act.takeBack(crawl, { id: c.order, text: c.text }, load) }, 'Take back') },
      ].filter(Boolean), all));
    } catch (e) {
      crawl.tell(e);
    }
  }
  load();
  return {};
}

// about says what an application is, as "orbweaver ctl apps" does.
function about(a) {
  const follows = a.strategy === 'follow';
  return [`strategy ${a.strategy}`, follows && `scope ${a.scope}`,
    follows && (a.depth ?? 0) >= 0 && `depth ${a.depth || 0}`,
    ...(a.include || []).map((p) => `include ${p}`), ...(a.exclude || []).map((p) => `exclude ${p}`),
    a.pages && 'pages are kept'].filter(Boolean).join(', ');
}

export function applications(main, crawl) {
  const list = el('div', { id: 'apps' });
  main.append(el('section', { class: 'card' }, el('h2', {}, 'Applications'), list));
  let timer = 0;
  async function load() {
    try {
      const all = (await call('Applications')).applications || [];
      const silent = new Set(all.flatMap((a) => a.agents || []).filter((s) => s.error).map((s) => s.agent));
      const num = (field) => (a) => count(a.state?.[field]);
      list.replaceChildren(all.length === 0 ? el('p', { class: 'quiet' },
        'There is no application. "orbweaver ctl app NAME" defines one.') : table([
        { name: 'Name', class: 'line', cell: (a) => a.name },
        { name: 'Share', class: 'n', cell: (a) => a.share },
        { name: 'Is', class: 'wide', cell: about },
        { name: 'Queued', class: 'n', cell: num('queued') },
        { name: 'Fetched', class: 'n', cell: num('fetched') },
        { name: 'Shared', class: 'n', cell: num('shared') },
        { name: 'Pages', class: 'n', cell: num('unacknowledged') },
        { name: 'Held', cell: (a) => (a.state?.held ? el('span', { class: 'badge warn' }, 'held') : 'no') },
        { name: 'Note', class: 'wide', cell: (a) => (a.error ? el('span', { class: 'bad' },
          `not in force: ${a.error}`) : a.why || '') },
        crawl.role === 'operator' && { name: '', class: 'row', cell: (a) => el('button', { type: 'button',
          class: 'take-back', click: () => act.removeApp(crawl, a.name, load) }, 'Remove') },
      ].filter(Boolean), all), silent.size > 0 && el('p', { class: 'bad' }, `No answer from ${[...silent].join(', ')}.`));
    } catch (e) {
      crawl.tell(e);
    }
    clearTimeout(timer);
    if (timer >= 0) timer = setTimeout(load, 5000);
  }
  load();
  return { leave: () => { clearTimeout(timer); timer = -1; } };
}
