// The views of the events, as they come, and of the log of visits.

import { call, follow } from './api.js';
import { el, day } from './dom.js';
import { visitTable } from './hosts.js';

const shownMost = 500;
const agentsMost = 3; // that a line names

export function events(main, crawl) {
  const filter = el('input', { type: 'search', id: 'filter', placeholder: 'host-paused order', autocomplete: 'off' });
  const list = el('ul', { class: 'events', id: 'events', 'aria-live': 'off' });
  main.append(el('section', { class: 'card' }, el('div', { class: 'bar' }, el('h2', {}, 'Events'),
    el('label', {}, 'Names', filter)), list));
  let end = new AbortController();

  function show(e) {
    const at = e.time ? Date.parse(e.time) : Date.now();
    const who = e.agents?.length ? e.agents : [e.agent].filter(Boolean);
    const more = who.length - agentsMost;
    const agents = who.slice(0, agentsMost).join(', ') + (more > 0 ? ` and ${more} more` : '');
    const item = el('li', { 'data-at': at, title: who.join(', ') },
      el('span', { class: 'quiet' }, e.time ? day(e.time) : '', agents ? `  ${agents}  ` : '  '),
      e.text || e.event || '', e.text && el('span', { class: 'quiet' }, `  ${e.event}`));
    // Agents may tell late of what happened earlier. The list has all events by time.
    list.insertBefore(item, [...list.children].find((c) => Number(c.dataset.at) <= at) || null);
    while (list.children.length > shownMost) list.lastChild.remove();
  }

  async function listen() {
    end.abort();
    const mine = new AbortController();
    end = mine;
    list.replaceChildren();
    const names = filter.value.split(/[\s,]+/).filter(Boolean);
    for (let last = 50; !mine.signal.aborted; last = 0) {
      try {
        await follow('Events', { names, last, follow: true }, mine.signal, show);
      } catch (e) {
        if (mine.signal.aborted) return;
        crawl.tell(e);
        if (e.code && e.code !== 'unavailable') return;
      }
      await new Promise((r) => { setTimeout(r, 2000); });
    }
  }
  let wait = 0;
  filter.addEventListener('input', () => { clearTimeout(wait); wait = setTimeout(listen, 400); });
  listen();
  return { search: filter, leave: () => { clearTimeout(wait); end.abort(); } };
}

export function log(main, crawl) {
  const host = el('input', { type: 'search', id: 'log-host', placeholder: 'host or *.example.org',
    autocomplete: 'off' });
  const status = el('select', { id: 'log-status' }, [['', 'all'], ['2xx', '2xx'], ['3xx', '3xx'], ['4xx', '4xx'],
    ['5xx', '5xx'], ['failed', 'failed']].map(([value, name]) => el('option', { value }, name)));
  const agent = el('select', { id: 'log-agent' }, el('option', { value: '' }, 'all'));
  const list = el('div', { id: 'log' });
  main.append(el('section', { class: 'card' }, el('div', { class: 'bar' }, el('h2', {}, 'Log of visits'),
    el('label', {}, 'Host', host), el('label', {}, 'Status', status), el('label', {}, 'Agent', agent)), list));
  let timer = 0;
  let asked = 0;

  async function load() {
    clearTimeout(timer);
    const mine = ++asked;
    try {
      const r = await call('Log', { host: host.value.trim(), status: status.value, agent: agent.value, limit: 100 });
      if (mine !== asked) return;
      const lines = (r.lines || []).reverse();
      list.replaceChildren(lines.length === 0 ? el('p', { class: 'quiet' }, 'No line.') : visitTable(lines));
    } catch (e) {
      crawl.tell(e);
    }
    if (mine === asked) timer = setTimeout(load, 3000);
  }
  for (const e of [status, agent]) e.addEventListener('change', load);
  host.addEventListener('input', () => { clearTimeout(timer); timer = setTimeout(load, 300); });
  load();
  return {
    search: host,
    status(s) {
      const names = (s.agents || []).map((a) => a.agent).filter(Boolean);
      if (names.length + 1 !== agent.options.length) {
        const was = agent.value;
        agent.replaceChildren(el('option', { value: '' }, 'all'), ...names.map((n) => el('option', { value: n }, n)));
        agent.value = names.includes(was) ? was : '';
      }
    },
    leave: () => { clearTimeout(timer); asked++; },
  };
}
