// The view of the agents: which part of the hosts each of them owns, and how it does.

import { call } from './api.js';
import { el, count, compact, bytes, day, table, circle } from './dom.js';
import { act } from './actions.js';
import { stateClass } from './main.js';

export function agents(main, crawl) {
  const picture = el('div', { id: 'circle' });
  const list = el('div', { id: 'agents' });
  main.append(el('section', { class: 'card' }, el('h2', {}, 'Division of the hosts'), picture),
    el('section', { class: 'card' }, el('h2', {}, 'Agents'), list));
  let shares = { agents: [] };
  let drawn = '';

  const names = (status) => [...new Set([...(shares.agents || []).map((a) => a.agent),
    ...(status?.agents || []).map((a) => a.agent || '')])].sort();

  function choose(agent) {
    const svg = picture.querySelector('svg');
    if (!svg) return;
    svg.classList.toggle('chosen', Boolean(agent));
    for (const p of svg.querySelectorAll('path')) p.classList.toggle('on', p.dataset.agent === agent);
  }

  function draw(status) {
    const text = JSON.stringify([shares, names(status)]);
    if (text === drawn) return;
    drawn = text;
    const all = names(status);
    const index = (name) => all.indexOf(name);
    if (!shares.partition) {
      picture.replaceChildren(el('p', { class: 'quiet' }, 'The crawl has one agent, which owns all hosts.'));
    } else if ((shares.arcs || []).length === 0) {
      picture.replaceChildren(el('p', { class: 'quiet' }, shares.partition === 'sites'
        ? 'Coordinators assign each host to an agent. "orbweaver ctl explain HOST" says which.'
        : `The partition "${shares.partition}" divides pages, not hosts.`));
    } else {
      picture.replaceChildren(circle(shares.arcs, shares.agents || [], index, [shares.partition,
        `${all.length} agent${all.length === 1 ? '' : 's'}`]));
    }
  }

  function status(s) {
    draw(s);
    const all = names(s);
    const share = new Map((shares.agents || []).map((a) => [a.agent, a]));
    const several = (s.agents || []).length > 1;
    const gone = (s.gone || []).map((g) => ({ ...g, gone: true,
      about: `since ${day(g.since)}: ${g.why}${g.totals ? '' : '; its counts are not known'}` }));
    const rows = [...(s.agents || []).map((a) => ({ ...a, key: a.agent, 
      about: a.waits_for && (a.state === 'silent' ? a.waits_for : `waits for ${a.waits_for}`) })), ...gone];
    const num = (field, format = count) => (r) => (r.totals ? format(r.totals[field] || 0) : '–');
    const now = (field, format) => (r) => (r.gone || r.state === 'silent' ? '–' : num(field, format)(r));
    const columns = [
      { name: 'Agent', cell: (r) => (r.total ? 'total' : el('span', {},
        !r.gone && el('span', { class: `swatch f${Math.max(all.indexOf(r.agent || ''), 0) % 8}` }),
        r.agent || 'the agent')) },
      { name: 'State', class: 'wide', cell: (r) => (r.total ? '' : el('div', {},
        el('span', { class: `badge ${stateClass(r.state)}` }, r.state),
        r.about && el('div', { class: 'about' }, r.about))) },
      several && { name: 'Share', class: 'n', cell: (r) => {
        const a = share.get(r.agent);
        return a?.share ? `${(a.share * 100).toFixed(1)} %` : '';
      } },
      { name: 'Pages/s', class: 'n', cell: now('pages_per_s', compact) },
      { name: 'Pages', class: 'n', cell: num('pages') },
      { name: 'Received', class: 'n', cell: num('bytes', bytes) },
      { name: 'Disk free', class: 'n', cell: (r) => (r.status?.disk?.size_bytes
        ? el('span', { class: r.status.disk.free_bytes < r.status.disk.size_bytes / 10 ? 'bad' : '' },
          bytes(r.status.disk.free_bytes || 0)) : '') },
      { name: 'Queued', class: 'n', cell: (r) => (r.gone ? '–' : num('urls_queued')(r)) },
      { name: 'Open', class: 'n', cell: now('open_requests') },
      { name: 'Errors', class: 'n', cell: num('errors') },
      several && crawl.role === 'operator' && { name: '', class: 'row', cell: (r) => (r.total || r.gone ? ''
        : el('div', { class: 'actions' },
          el('button', { type: 'button', click: () => act.checkpoint(crawl, r.agent) }, 'Save'),
          el('button', { type: 'button', class: 'danger', click: () => act.stop(crawl, r.agent) }, 'Stop'),
          el('button', { type: 'button', class: 'danger', click: () => act.leave(crawl, r.agent) }, 'Leave'))) },
    ].filter(Boolean);
    const focused = list.contains(document.activeElement) ? [...list.querySelectorAll('button')]
      .indexOf(document.activeElement) : -1;
    list.replaceChildren(table(columns, rows,
      rows.length > 1 && { total: true, totals: s.totals }));
    if (focused >= 0) list.querySelectorAll('button')[focused]?.focus(); // the table is new, the focus stays
    for (const row of list.querySelectorAll('tbody tr')) {
      row.addEventListener('mouseenter', () => choose(row.dataset.key));
      row.addEventListener('mouseleave', () => choose(''));
      row.addEventListener('focusin', () => choose(row.dataset.key));
      row.addEventListener('focusout', () => choose(''));
    }
  }

  let timer = 0;
  async function load() {
    try {
      shares = await call('Shares');
      draw(crawl.status);
    } catch (e) {
      crawl.tell(e);
    }
    if (timer >= 0) timer = setTimeout(load, 5000);
  }
  load();
  return { status, leave: () => { clearTimeout(timer); timer = -1; } };
}
