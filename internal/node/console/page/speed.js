// The view of the rate: the limit of each hour of a week, which is changed hour by hour. The agent makes the hours of a
// text and the text of the hours (RateWeek), so that this page knows neither.

import { call } from './api.js';
import { el, table } from './dom.js';
import { act } from './actions.js';

const days = ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun'];
const steps = 5; // of the colours
const units = { '/s': 1, bit: 1e3, kbit: 1e6, Mbit: 1e9, Gbit: 1e12 };

// amount orders limits: requests, then bits, then no limit.
function amount(limit) {
  const m = /^([0-9.]+)(\/s|[kMG]?bit)$/.exec(limit);
  return m ? Number(m[1]) * units[m[2]] : Infinity;
}

const brief = (limit) => (limit === 'none' ? '∞' : limit.replace('/s', '').replace('bit', ''));

export function speed(main, crawl) {
  const editor = crawl.role === 'operator';
  let week = []; // the limit of each hour, from Monday 0:00
  let zone = 'UTC';
  const chosen = new Set(); // hours of the week
  let anchor = 0; // where a rectangle of hours begins
  let drags = false;
  let grows = false; // the last key made the rectangle larger or smaller

  const grid = el('div', { class: 'week', id: 'week', role: 'group',
    'aria-label': 'The limit of each hour of a week' });
  const holds = el('p', { class: 'quiet', id: 'holds' });
  const problem = el('p', { class: 'bad', role: 'alert', id: 'rate-problem' });
  const picked = el('span', { class: 'quiet', id: 'picked', role: 'status' });
  const value = el('input', { type: 'text', id: 'rate-value', autocomplete: 'off', spellcheck: 'false', size: 18,
    placeholder: '40/s, 20Mbit, none' });
  const set = el('button', { type: 'button', id: 'rate-set', click: fill }, 'Set for the chosen hours');
  const text = el('input', { type: 'text', id: 'rate-text', autocomplete: 'off', spellcheck: 'false' });
  const zoneField = el('input', { type: 'text', id: 'rate-zone', size: 14, list: 'zones', autocomplete: 'off' });
  const apply = el('button', { type: 'submit', class: 'main', id: 'rate-apply' }, 'Apply …');
  const standing = el('div', { id: 'rate-orders' });

  const buttons = [];
  const hourNames = [...Array(24).keys()].map((h) => String(h).padStart(2, '0'));
  grid.append(el('span', {}), ...hourNames.map((h, i) => el('button', { type: 'button', class: 'head',
    disabled: !editor, title: `All days at ${h}:00`, click: () => toggle(days.map((_, d) => d * 24 + i)) }, h)));
  days.forEach((name, d) => {
    grid.append(el('button', { type: 'button', class: 'head', disabled: !editor, title: `All hours of ${name}`,
      click: () => toggle(hourNames.map((_, h) => d * 24 + h)) }, name));
    hourNames.forEach((_, h) => {
      const i = d * 24 + h;
      buttons[i] = el('button', { type: 'button', class: 'hour', 'data-hour': i, tabindex: i === 0 ? 0 : -1 });
      grid.append(buttons[i]);
    });
  });

  // rectangle returns the hours between two hours, on the days between them.
  function rectangle(a, b) {
    const [d1, d2] = [Math.floor(a / 24), Math.floor(b / 24)].sort((x, y) => x - y);
    const [h1, h2] = [a % 24, b % 24].sort((x, y) => x - y);
    const all = [];
    for (let d = d1; d <= d2; d++) for (let h = h1; h <= h2; h++) all.push(d * 24 + h);
    return all;
  }
  function toggle(all) {
    const on = !all.every((i) => chosen.has(i));
    for (const i of all) { if (on) chosen.add(i); else chosen.delete(i); }
    show();
  }
  function choose(all) {
    chosen.clear();
    for (const i of all) chosen.add(i);
    show();
  }
  function focus(i) {
    grid.querySelector('[tabindex="0"].hour')?.setAttribute('tabindex', '-1');
    buttons[i].setAttribute('tabindex', '0');
    buttons[i].focus();
  }
  const hourOf = (target) => (target?.dataset?.hour === undefined ? -1 : Number(target.dataset.hour));

  if (editor) {
    grid.addEventListener('pointerdown', (e) => {
      const i = hourOf(e.target);
      if (i < 0 || e.pointerType === 'touch' || e.button !== 0) return;
      e.preventDefault(); // no text is selected
      focus(i);
      if (e.shiftKey) { choose(rectangle(anchor, i)); return; }
      drags = true;
      anchor = i;
      if (!e.ctrlKey && !e.metaKey) choose(chosen.size === 1 && chosen.has(i) ? [] : [i]); else toggle([i]);
    });
    grid.addEventListener('pointerover', (e) => {
      if (drags && e.pointerType !== 'touch' && hourOf(e.target) >= 0) choose(rectangle(anchor, hourOf(e.target)));
    });
    // A finger that taps chooses one hour more. One that moves scrolls the page, as everywhere.
    grid.addEventListener('click', (e) => {
      const i = hourOf(e.target);
      if (i < 0 || e.pointerType !== 'touch') return;
      anchor = i;
      focus(i);
      toggle([i]);
    });
    grid.addEventListener('keydown', (e) => {
      const i = hourOf(e.target);
      const turned = getComputedStyle(grid).gridAutoFlow.includes('column'); // a phone has the days side by side
      const by = { ArrowLeft: turned ? -24 : -1, ArrowRight: turned ? 24 : 1, ArrowUp: turned ? -1 : -24,
        ArrowDown: turned ? 1 : 24 }[e.key];
      if (i >= 0 && by) {
        e.preventDefault();
        const to = i + by;
        if (to < 0 || to > 167 || (Math.abs(by) === 1 && Math.floor(to / 24) !== Math.floor(i / 24))) return;
        if (e.shiftKey) {
          if (!grows) anchor = i;
          choose(rectangle(anchor, to));
        }
        grows = e.shiftKey;
        focus(to);
      } else if (i >= 0 && (e.key === ' ' || e.key === 'Enter')) {
        e.preventDefault();
        toggle([i]);
      } else if (e.key === 'Escape') {
        choose([]);
      } else if (i >= 0 && e.key === 'a' && (e.ctrlKey || e.metaKey)) {
        e.preventDefault();
        choose(rectangle(0, 167));
      }
    });
  }
  const release = () => { drags = false; };
  window.addEventListener('pointerup', release);

  function show() {
    const order = [...new Set(week)].sort((a, b) => amount(a) - amount(b));
    buttons.forEach((b, i) => {
      const limit = week[i] || '';
      const step = order.length < 2 ? 0 : Math.round((order.indexOf(limit) / (order.length - 1)) * (steps - 1));
      b.className = `hour q${limit === 'none' ? 'n' : step}${chosen.has(i) ? ' chosen' : ''}`;
      b.textContent = brief(limit);
      b.setAttribute('aria-pressed', chosen.has(i));
      b.setAttribute('aria-label', `${days[Math.floor(i / 24)]} ${hourNames[i % 24]}:00, ${limit}`);
      b.title = `${days[Math.floor(i / 24)]} ${hourNames[i % 24]}:00: ${limit === 'none' ? 'no limit' : limit}`;
    });
    picked.textContent = chosen.size === 0 ? '' : `${chosen.size} of 168 hours`;
    set.disabled = chosen.size === 0;
  }

  // draw asks the agent for the hours of a text, or for the text of hours, and shows both.
  async function draw(request) {
    problem.textContent = '';
    apply.disabled = true;
    try {
      const r = await call('RateWeek', request);
      week = r.hours || [];
      zone = r.zone || 'UTC';
      text.value = r.rate;
      zoneField.value = zone;
      if (r.parted) {
        problem.textContent = 'This rate changes within an hour. An hour shows what holds at its beginning, and a '
          + 'change of the grid moves the times to full hours.';
      }
      show();
      apply.disabled = !editor;
      return true;
    } catch (e) {
      problem.textContent = e.message;
      if (e.code === 'unauthenticated') crawl.tell(e);
      return false;
    }
  }
  async function fill() {
    const before = week;
    week = week.map((limit, i) => (chosen.has(i) ? value.value.trim() : limit));
    if (await draw({ hours: week, zone: zoneField.value.trim() })) choose([]);
    else week = before;
  }

  const zones = el('datalist', { id: 'zones' }, [...new Set(['UTC', Intl.DateTimeFormat().resolvedOptions().timeZone])]
    .map((z) => el('option', { value: z })));
  const form = el('form', { submit: async (e) => {
    e.preventDefault();
    if (await draw({ rate: text.value })) act.rate(crawl, text.value, () => load());
  } }, el('fieldset', { class: 'form', disabled: !editor },
    el('div', { class: 'bar' }, el('label', {}, 'Limit', value), set, picked,
      el('label', {}, 'Time zone of the hours', zoneField, zones)),
    el('label', {}, 'The same as text, as for "orbweaver ctl rate"', text),
    el('div', { class: 'actions' }, el('button', { type: 'button', id: 'rate-draw',
      click: () => draw({ rate: text.value }) }, 'Draw the text'), el('button', { type: 'button', id: 'rate-reset', click: () => load() }, 'Back to what holds'),
    apply)), !editor && el('p', { class: 'quiet' }, 'A reader can look, and cannot change anything.'));
  value.addEventListener('keydown', (e) => {
    if (e.key === 'Enter') { e.preventDefault(); if (chosen.size > 0) fill(); }
  });
  zoneField.addEventListener('change', () => draw({ hours: week, zone: zoneField.value.trim() }));
  text.addEventListener('input', () => { problem.textContent = 'The text is not drawn yet.'; });
  main.append(el('section', { class: 'card' }, el('h2', {}, 'Rate by hours of the week'), holds, grid, form, problem),
    el('section', { class: 'card' }, el('h2', {}, 'Orders'), standing));

  const rateOf = (s) => (s?.agents || []).map((a) => a.rate).find(Boolean);
  async function load() {
    try {
      const [status, orders] = await Promise.all([call('Status'), call('Orders')]);
      chosen.clear();
      await draw({ rate: rateOf(status)?.schedule || 'none' });
      const mine = (orders.orders || []).filter((o) => o.verb === 'rate');
      standing.replaceChildren(mine.length === 0 ? el('p', { class: 'quiet' },
        'No order sets a rate. The setting --rate holds.') : table([
        { name: 'Of', class: 'wide', cell: (o) => o.about || 'the crawl' },
        { name: 'Rate', class: 'wide', cell: (o) => o.value }, { name: 'Why', class: 'wide', cell: (o) => o.why || '' },
        editor && { name: '', class: 'row', cell: (o) => el('button', { type: 'button', class: 'take-back',
          click: () => act.takeBack(crawl, o, () => load()) }, 'Take back') },
      ].filter(Boolean), mine));
    } catch (e) {
      crawl.tell(e);
    }
  }
  load();
  return {
    status(s) {
      const r = rateOf(s);
      const limit = r && r.limit !== 'none' ? r.limit : 'no limit';
      holds.textContent = `Now ${limit} holds for all agents together.`;
    },
    leave: () => window.removeEventListener('pointerup', release),
  };
}
