// The view of the traffic by hour: what all agents together fetched, as Polybot's authors drew it.

import { call } from './api.js';
import { el, bytes, count, compact, bars } from './dom.js';

export function traffic(main, crawl) {
  const charts = el('div', { id: 'hours', class: 'stackup' });
  const range = el('select', { id: 'days', change: () => load() }, el('option', { value: 1 }, 'last 24 hours'),
    el('option', { value: 7, selected: true }, 'last 7 days'), el('option', { value: 30 }, 'last 30 days'));
  const sums = el('p', { class: 'quiet', id: 'hour-sums' });
  main.append(el('div', { class: 'bar' }, el('h2', {}, 'Traffic by hour'), el('label', {}, 'Hours of the', range)),
    sums, charts);
  let timer = 0;

  async function load() {
    clearTimeout(timer);
    try {
      const r = await call('History', { minutes: Number(range.value) * 1440, hours: true });
      const hours = new Map();
      for (const series of r.agents || []) {
        for (const h of series.hours || []) {
          const sum = hours.get(h.unix_s) || { at: h.unix_s, pages: 0, bytes: 0, errors: 0, checkpoints: 0 };
          for (const f of ['pages', 'bytes', 'errors', 'checkpoints']) sum[f] += h[f] || 0;
          hours.set(sum.at, sum);
        }
      }
      const all = [...hours.values()].sort((a, b) => a.at - b.at);
      if (all.length === 0) {
        sums.textContent = '';
        charts.replaceChildren(el('section', { class: 'card' }, el('p', { class: 'quiet' },
          'No hour yet. The first counts come within a minute of the start.')));
      } else {
        const total = (f) => all.reduce((s, h) => s + h[f], 0);
        sums.textContent = `${count(total('pages'))} pages, ${bytes(total('bytes'))} and `
          + `${count(total('errors'))} errors in ${count(all.length)} hour${all.length > 1 ? 's' : ''}. `
          + 'A triangle marks an hour with a checkpoint. The last hour may not be over.';
        const card = (name, f, format) => el('section', { class: 'card' }, el('h2', {}, name),
          bars(name, all.map((h) => ({ at: h.at, value: h[f], mark: h.checkpoints })), 3600, format));
        charts.replaceChildren(card('Bytes by hour', 'bytes', bytes), card('Pages by hour', 'pages', compact),
          card('Errors by hour', 'errors', compact));
      }
    } catch (e) {
      crawl.tell(e);
    }
    if (timer >= 0) timer = setTimeout(load, 30000);
  }
  load();
  return { leave: () => { clearTimeout(timer); timer = -1; } };
}
