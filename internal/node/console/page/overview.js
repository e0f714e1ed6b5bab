// The view of the whole crawl: what it does now, and how that was in the last hours.

import { call } from './api.js';
import { el, count, compact, bytes, chart, key, spark, table } from './dom.js';
import { act } from './actions.js';

const historyEvery = 30000;
const sparkMost = 60;

// errorsOf adds up the errors of all agents by kind.
function errorsOf(status) {
  const kinds = new Map();
  for (const a of status.agents || []) {
    for (const [kind, n] of Object.entries(a.status?.errors_by_kind || {})) kinds.set(kind, (kinds.get(kind) || 0) + n);
  }
  return [...kinds].filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1]);
}

// freeDisk returns the tile of the agent whose disk has the least room.
function freeDisk(status, tile) {
  const disks = (status.agents || []).map((a) => ({ agent: a.agent, ...a.status?.disk }))
    .filter((d) => d.size_bytes > 0);
  if (disks.length === 0) return [];
  const least = disks.reduce((a, b) => ((b.free_bytes || 0) < (a.free_bytes || 0) ? b : a));
  return [tile(`free of ${bytes(least.size_bytes)} on disk${least.agent ? ` at ${least.agent}` : ''}`,
    el('span', { class: (least.free_bytes || 0) < least.size_bytes / 10 ? 'bad' : '' }, bytes(least.free_bytes)))];
}

// ratesOf returns the limits of the crawl and of domains, each once, with the agents that know it.
export function ratesOf(status) {
  const all = new Map();
  for (const a of status?.agents || []) {
    for (const r of [a.rate && { ...a.rate, domain: '' }, ...(a.domain_rates || [])].filter(Boolean)) {
      const key = `${r.domain} ${r.limit} ${r.schedule}`;
      if (!all.has(key)) all.set(key, { ...r, of: r.domain || 'the crawl', agents: [] });
      if (a.agent) all.get(key).agents.push(a.agent);
    }
  }
  return [...all.values()];
}

// summed adds up the samples of all agents at the times at which each agent that was there has one.
export function summed(series) {
  const times = new Map();
  for (const s of series) {
    for (const p of s.samples || []) {
      const at = p.unix_s;
      const sum = times.get(at) || { at, n: 0, pages: 0, bytes: 0, errors: 0 };
      sum.n++;
      for (const f of ['pages', 'bytes', 'errors']) sum[f] += p[f] || 0;
      times.set(at, sum);
    }
  }
  return [...times.values()].sort((a, b) => a.at - b.at)
    .filter((p, i, all) => p.n >= (all[i - 1]?.n ?? 0) || p.n >= (all[i + 1]?.n ?? Infinity));
}

// rates returns how fast a sum grows. Where it shrinks, or agents come or go, there is no rate.
function rates(sums, field) {
  const list = [];
  for (let i = 1; i < sums.length; i++) {
    const [a, b] = [sums[i - 1], sums[i]];
    if (a.n === b.n && b[field] >= a[field]) list.push([b.at, (b[field] - a[field]) / (b.at - a.at)]);
  }
  return list;
}

export function overview(main, crawl) {
  const tiles = el('dl', { class: 'tiles', id: 'tiles' });
  const kinds = el('div', { id: 'errors' });
  const limits = el('div', { id: 'limits' });
  const curves = el('div', { class: 'grid', id: 'curves' });
  const buttons = el('div', { class: 'actions' });
  const range = el('select', { id: 'range', change: () => draw() },
    el('option', { value: 60 }, 'last hour'), el('option', { value: 360, selected: true }, 'last 6 hours'),
    el('option', { value: 1440 }, 'last 24 hours'));
  main.append(el('div', { class: 'bar' }, el('h2', {}, 'Overview'), crawl.role === 'operator' && buttons,
    el('label', {}, 'Curves of the', range)), tiles, curves,
  el('div', { class: 'grid' }, el('section', { class: 'card' }, el('h2', {}, 'Errors by kind'), kinds),
    el('section', { class: 'card' }, el('h2', {}, 'Limits of the rate'), limits)));

  const speeds = { pages: [], bytes: [] };
  let before = null;
  function status(s) {
    const t = s.totals || {};
    const now = performance.now() / 1000;
    const size = t.bytes || 0;
    let perSecond = 0;
    if (before && now > before.at) perSecond = Math.max(0, (size - before.size) / (now - before.at));
    if (!before || now - before.at > 1) {
      if (before) speeds.bytes.push(perSecond);
      speeds.pages.push(t.pages_per_s || 0);
      for (const list of Object.values(speeds)) list.splice(0, list.length - sparkMost);
      before = { at: now, size };
    }
    const tile = (name, value, values) => el('div', { class: 'tile' }, el('dt', {}, name), el('dd', {}, value),
      values && values.length > 1 && spark(values));
    tiles.replaceChildren(
      tile('pages a second', compact(t.pages_per_s || 0), speeds.pages),
      tile('received a second', speeds.bytes.length ? bytes(speeds.bytes.at(-1)) : '–', speeds.bytes),
      tile('pages', count(t.pages)), tile('received', bytes(t.bytes)), tile('URLs queued', count(t.urls_queued)),
      tile('known URLs', count(t.urls_unique)), tile('open requests', count(t.open_requests)),
      tile('errors', count(t.errors)), ...freeDisk(s, tile));
    const rates = ratesOf(s);
    limits.replaceChildren(rates.length === 0 ? el('p', { class: 'quiet' }, 'No limit of the rate holds.') : table([
      { name: 'Of', cell: (r) => r.of }, { name: 'Now', class: 'line', cell: (r) => r.limit },
      { name: 'By', class: 'wide', cell: (r) => r.schedule },
      { name: 'Agents', class: 'wide', cell: (r) => r.agents.join(', ') },
    ], rates));
    const errors = errorsOf(s);
    const most = errors[0]?.[1] || 1;
    kinds.replaceChildren(errors.length === 0 ? el('p', { class: 'quiet' }, 'No URL was given up.')
      : el('div', { class: 'kinds' }, errors.flatMap(([kind, n]) => [el('span', {}, kind),
        el('meter', { min: 0, max: most, value: n, 'aria-label': kind }), el('span', {}, count(n))])));
    const text = act.paused(s) ? 'Resume' : 'Pause';
    if (buttons.firstChild?.textContent !== text) {
      buttons.replaceChildren(
        el('button', { type: 'button', class: 'main', id: 'pause', click: () => act.pauseOrResume(crawl) }, text),
        el('button', { type: 'button', id: 'checkpoint', click: () => act.checkpoint(crawl) }, 'Save'),
        el('button', { type: 'button', class: 'danger', id: 'stop', click: () => act.stop(crawl) }, 'Stop'));
    }
  }

  let timer = 0;
  async function draw() {
    clearTimeout(timer);
    try {
      const history = await call('History', { minutes: Number(range.value), points: 240 });
      const series = history.agents || [];
      const sums = summed(series);
      const card = (title, picture, names) => el('section', { class: 'card' }, el('h2', {}, title), picture,
        names && names.length > 1 && key(names));
      const queue = (s) => (s.samples || []).map((p) => [p.unix_s, p.urls_queued || 0]);
      const queued = series.map((s) => ({ name: s.agent || 'queue', points: queue(s) }))
        .filter((s) => s.points.length > 0);
      curves.replaceChildren(
        card('Pages a second', chart('Pages a second', [{ name: 'pages/s', points: rates(sums, 'pages') }])),
        card('URLs queued', chart('URLs queued', queued), queued.map((s) => s.name)),
        card('Bytes a second', chart('Bytes a second', [{ name: 'bytes/s', points: rates(sums, 'bytes') }], bytes)),
        card('Errors a minute', chart('Errors a minute', [{ name: 'errors/min',
          points: rates(sums, 'errors').map(([at, v]) => [at, v * 60]) }])));
    } catch (e) {
      crawl.tell(e);
    }
    timer = setTimeout(draw, historyEvery);
  }
  draw();
  return { status, leave: () => { clearTimeout(timer); timer = -1; } };
}
