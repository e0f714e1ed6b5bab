// The view of a crawl whose pages are divided by topic: pages by category, and what agents send each other for it.

import { el, bytes, count, table } from './dom.js';

// hasTopics reports whether pages are divided by topic.
export const hasTopics = (status) => (status?.agents || []).some((a) => (a.status?.categories || []).length > 0);

const num = (x) => x || 0;

export function topics(main) {
  const pages = el('div', { id: 'topics' });
  const flow = el('div', { id: 'flow' });
  const matrix = el('div', { id: 'matrix' });
  main.append(el('section', { class: 'card' }, el('h2', {}, 'Pages by topic, in this run'), pages),
    el('section', { class: 'card' }, el('h2', {}, 'Boundary pages, from agent to agent'), matrix),
    el('section', { class: 'card' }, el('h2', {}, 'Traffic between agents, in this run'), flow));

  function status(s) {
    const agents = (s.agents || []).map((a) => ({ name: a.agent || 'the agent', st: a.status || {} }));
    const index = new Map(agents.map((a, i) => [a.name, i]));
    const topic = new Map();
    for (const a of agents) {
      for (const c of a.st.categories || []) {
        const t = topic.get(c.name) || { name: c.name, here: [], by: new Map(), pages: 0 };
        if (c.here) t.here.push(a.name);
        t.by.set(a.name, num(c.pages));
        t.pages += num(c.pages);
        topic.set(c.name, t);
      }
    }
    if (topic.size === 0) {
      for (const e of [pages, matrix, flow]) {
        e.replaceChildren(el('p', { class: 'quiet' }, 'Pages are not divided by topic (--partition topic).'));
      }
      return;
    }
    const all = [...topic.values()].sort((a, b) => b.pages - a.pages || (a.name < b.name ? -1 : 1));
    const most = Math.max(...all.map((t) => t.pages), 1);
    const total = all.reduce((n, t) => n + t.pages, 0);
    const swatch = (name) => el('span', { class: `swatch f${(index.get(name) || 0) % 8}` });
    pages.replaceChildren(table([
      { name: 'Topic', cell: (t) => t.name },
      { name: 'Pages', class: 'n', cell: (t) => count(t.pages) },
      { name: 'Share', class: 'n', cell: (t) => `${((100 * t.pages) / Math.max(total, 1)).toFixed(1)} %` },
      // One bar for each topic, with a part for each agent that keeps pages of it.
      { name: '', class: 'wide', cell: (t) => el('svg', { class: 'split', viewBox: '0 0 1000 12', role: 'img',
        preserveAspectRatio: 'none', 'aria-label': [...t.by].map(([n, p]) => `${n}: ${count(p)}`).join(', ') },
      (() => {
        let x = 0;
        return [...t.by].filter(([, p]) => p > 0).map(([n, p]) => {
          const w = (1000 * p) / most;
          const part = el('rect', { class: `f${(index.get(n) || 0) % 8}`, x, y: 0, width: Math.max(w - 1, 1),
            height: 12 }, el('title', {}, `${n}: ${count(p)}`));
          x += w;
          return part;
        });
      })()) },
      { name: 'Belongs to', cell: (t) => t.here.map((n) => el('span', { class: 'who' }, swatch(n), n)) },
    ], all));

    // got[i] counts the pages that agent i has taken, by the agent that has sent them.
    const got = agents.map((a) => new Map((a.st.boundary?.from || []).map((f) => [f.agent, f])));
    const largest = Math.max(1, ...got.flatMap((m) => [...m.values()].map((f) => num(f.pages))));
    matrix.replaceChildren(agents.length < 2 ? el('p', { class: 'quiet' }, 'The crawl has one agent.')
      : el('div', { class: 'scroll' }, el('table', { class: 'matrix' },
        el('thead', {}, el('tr', {}, el('th', {}, 'from ↓ to →'),
          agents.map((b) => el('th', { scope: 'col' }, b.name)))),
        el('tbody', {}, agents.map((a) => el('tr', {}, el('th', { scope: 'row' }, swatch(a.name), a.name),
          agents.map((b, i) => {
            if (a === b) return el('td', { class: 'n quiet' }, '–');
            const f = got[i].get(a.name);
            const n = num(f?.pages);
            return el('td', { class: `n q${n === 0 ? 'n' : Math.min(4, Math.floor((5 * n) / largest))}` },
              el('strong', {}, count(n)), el('br', {}), el('small', {}, bytes(f?.bytes)));
          })))))));

    const sent = (name, f) => got.reduce((n, m) => n + num(m.get(name)?.[f]), 0);
    const taken = (a, f) => (a.st.boundary?.from || []).reduce((n, x) => n + num(x[f]), 0);
    flow.replaceChildren(table([
      { name: 'Agent', cell: (a) => el('span', {}, swatch(a.name), a.name) },
      { name: 'Pages sent', class: 'n', cell: (a) => count(sent(a.name, 'pages')) },
      { name: 'Pages taken', class: 'n', cell: (a) => count(taken(a, 'pages')) },
      { name: 'Pages wait', class: 'n', cell: (a) => count(a.st.boundary?.waiting) },
      { name: 'Page bytes sent', class: 'n', cell: (a) => bytes(sent(a.name, 'bytes')) },
      { name: 'Page bytes taken', class: 'n', cell: (a) => bytes(taken(a, 'bytes')) },
      { name: 'Links sent', class: 'n', cell: (a) => count(a.st.urls_sent) },
      { name: 'Links received', class: 'n', cell: (a) => count(a.st.urls_received) },
      { name: 'All messages', class: 'n', cell: (a) => bytes(a.st.exchange?.bytes) },
    ], agents));
  }
  return { status };
}
