// Elements, numbers and pictures. Text of the crawl gets into the page only as text nodes and attributes of our own
// names, never as HTML.

const svgNames = new Set(['svg', 'path', 'line', 'polyline', 'polygon', 'circle', 'text', 'g', 'title', 'rect']);

// el makes an element. Functions among the attributes are listeners of events.
export function el(name, attributes = {}, ...children) {
  const e = svgNames.has(name) ? document.createElementNS('http://www.w3.org/2000/svg', name)
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === 'function') e.addEventListener(key, value);
    else if (value === true) e.setAttribute(key, '');
    else if (value !== false && value !== undefined && value !== null) e.setAttribute(key, String(value));
  }
  e.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false)
    .map((c) => (c instanceof Node ? c : document.createTextNode(String(c)))));
  return e;
}

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

export const count = (n) => whole.format(n || 0);
export const compact = (n) => (Math.abs(n) < 1000 ? String(Math.round(n * 10) / 10) : short.format(n));

export function bytes(n) {
  let x = n || 0;
  for (const unit of ['B', 'kB', 'MB', 'GB', 'TB']) {
    if (Math.abs(x) < 1000 || unit === 'TB') return `${x < 10 && unit !== 'B' ? x.toFixed(1) : Math.round(x)} ${unit}`;
    x /= 1000;
  }
  return '';
}

export function took(seconds) {
  if (!seconds) return '–';
  if (seconds < 0.001) return '<1 ms';
  return seconds < 1 ? `${Math.round(seconds * 1000)} ms` : `${seconds.toFixed(1)} s`;
}

// span shows a long time in its two largest units, as the program's own reports do.
export function span(seconds) {
  const s = Math.round(seconds || 0);
  if (s < 60) return s === 0 ? '–' : `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m ${s % 60}s`;
  if (s < 86400) return `${Math.floor(s / 3600)}h ${Math.floor((s % 3600) / 60)}m`;
  return `${Math.floor(s / 86400)}d ${Math.floor((s % 86400) / 3600)}h`;
}

export const clock = (t) => new Date(t).toLocaleTimeString('en-GB');
export const day = (t) => new Date(t).toLocaleString('en-GB', { dateStyle: 'short', timeStyle: 'medium' });

// lines returns the lines of a text without comments, as a file of seeds or a blacklist has them.
export const lines = (text) => text.split(/\r?\n/).map((l) => l.replace(/(^|\s)#.*$/, '').trim()).filter(Boolean);

// linesField makes a field for several lines, which are typed, pasted or read from a file. Its property text is the
// text area.
export function linesField(id, name, placeholder) {
  const text = el('textarea', { id, rows: 4, placeholder, spellcheck: 'false', autocomplete: 'off' });
  const file = el('input', { type: 'file', id: `${id}-file`, accept: '.txt,text/plain', change: async () => {
    if (file.files.length === 0) return;
    text.value = `${text.value.trimEnd()}\n${await file.files[0].text()}`.trimStart();
    file.value = '';
  } });
  const all = el('div', { class: 'lines' }, el('label', { for: id }, name), text,
    el('label', {}, 'or add the lines of a file', file));
  all.text = text;
  return all;
}

// table makes a table. A column has a name, a function from row to cell, and perhaps a class: n is a number, wide is
// long text, row fills a line on a phone.
export function table(columns, rows, foot) {
  const cells = (row) => columns.map((c, i) => el('td', { class: c.class, 'data-name': i > 0 && c.name }, c.cell(row)));
  return el('div', { class: 'scroll' }, el('table', { class: 'stack' },
    el('thead', {}, el('tr', {}, columns.map((c) => el('th', { class: c.class, scope: 'col' }, c.name)))),
    el('tbody', {}, rows.map((r) => el('tr', { 'data-key': r.key }, cells(r)))),
    foot && el('tfoot', {}, el('tr', {}, cells(foot)))));
}

// ticks returns about n round numbers from 0 up to more than most.
function ticks(most, n) {
  const raw = Math.max(most, 1e-9) / n;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= raw);
  const list = [];
  for (let x = 0; x < most + step; x += step) list.push(x);
  return list;
}

// chart draws curves over time. A series has a name and points [seconds, value].
export function chart(title, series, format = compact) {
  const [w, h, left, right, top, bottom] = [560, 190, 46, 10, 8, 22];
  const points = series.flatMap((s) => s.points);
  if (points.length < 2) return el('p', { class: 'quiet' }, 'The first curve appears after a minute.');
  const [from, to] = [Math.min(...points.map((p) => p[0])), Math.max(...points.map((p) => p[0]))];
  const marks = ticks(Math.max(...points.map((p) => p[1]), 0), 3);
  const most = marks[marks.length - 1];
  const x = (t) => left + ((t - from) / Math.max(to - from, 1)) * (w - left - right);
  const y = (v) => h - bottom - (v / most) * (h - top - bottom);
  const last = series.map((s) => `${s.name} ${format(s.points[s.points.length - 1]?.[1] ?? 0)}`).join(', ');
  const svg = el('svg', { class: 'chart', viewBox: `0 0 ${w} ${h}`, role: 'img',
    'aria-label': `${title}; last: ${last}` });
  for (const m of marks) {
    svg.append(el('line', { class: 'rule', x1: left, x2: w - right, y1: y(m), y2: y(m) }),
      el('text', { x: left - 6, y: y(m) + 4, 'text-anchor': 'end' }, format(m)));
  }
  for (const [at, anchor] of [[from, 'start'], [(from + to) / 2, 'middle'], [to, 'end']]) {
    svg.append(el('text', { x: x(at), y: h - 6, 'text-anchor': anchor },
      clock(at * 1000).slice(0, to - from < 600 ? 8 : 5)));
  }
  series.forEach((s, i) => {
    const line = s.points.map((p) => `${x(p[0]).toFixed(1)},${y(p[1]).toFixed(1)}`).join(' ');
    if (series.length === 1) {
      svg.append(el('polygon', { class: `area f${i % 8}`,
        points: `${x(s.points[0][0])},${y(0)} ${line} ${x(s.points[s.points.length - 1][0])},${y(0)}` }));
    }
    svg.append(el('polyline', { class: `curve c${i % 8} d${i % 4}`, points: line }));
  });
  return svg;
}

// bars draws values of times that are step seconds apart. A bar has at (seconds), a value, and mark: how many
// checkpoints there were at its time.
export function bars(title, list, step, format = compact) {
  const w = window.innerWidth < 640 ? 560 : 1140; // text stays readable on a phone
  const [h, left, right, top, bottom] = [190, w < 600 ? 78 : 64, 10, 16, 22];
  const from = list[0].at;
  const to = list[list.length - 1].at + step;
  const span = Math.max(to - from, 12 * step); // few bars stay slim
  const marks = ticks(Math.max(...list.map((b) => b.value), 1e-9), 4);
  const high = marks[marks.length - 1];
  const x = (at) => left + ((at - from) / span) * (w - left - right);
  const y = (v) => h - bottom - (v / high) * (h - top - bottom);
  const svg = el('svg', { class: 'chart bars', viewBox: `0 0 ${w} ${h}`, role: 'img', 'aria-label':
    `${title}; most: ${format(Math.max(...list.map((b) => b.value)))}; last: ${format(list[list.length - 1].value)}` });
  for (const m of marks) {
    svg.append(el('line', { class: 'rule', x1: left, x2: w - right, y1: y(m), y2: y(m) }),
      el('text', { x: left - 6, y: y(m) + 4, 'text-anchor': 'end' }, format(m)));
  }
  const wide = Math.max(1, x(from + step) - x(from) - 1);
  for (const b of list) {
    const about = `${day(b.at * 1000)}: ${format(b.value)}`
      + (b.mark ? `, ${b.mark} checkpoint${b.mark > 1 ? 's' : ''}` : '');
    svg.append(el('rect', { class: 'f0', x: x(b.at).toFixed(1), y: y(b.value).toFixed(1), width: wide.toFixed(1),
      height: Math.max(h - bottom - y(b.value), b.value > 0 ? 1 : 0).toFixed(1) }, el('title', {}, about)));
    if (b.mark) {
      const at = x(b.at) + wide / 2;
      svg.append(el('path', { class: 'f1', d: `M${at - 4} 3h8l-4 7Z` }, el('title', {}, about)));
    }
  }
  const places = span > 36 * step ? [from, from + span / 4, from + span / 2, from + (3 * span) / 4]
    : [from, from + span / 3, from + (2 * span) / 3];
  for (const at of places.filter((p, i) => p < to && (w > 600 || i % 2 === 0))) {
    const t = new Date(Math.round(at / step) * step * 1000);
    svg.append(el('text', { x: x(at), y: h - 6, 'text-anchor': 'start' }, span > 36 * step
      ? t.toLocaleString('en-GB', { weekday: 'short', day: 'numeric', month: 'short', hour: '2-digit',
        minute: '2-digit' })
      : clock(t).slice(0, 5)));
  }
  return svg;
}

// key names the curves of a chart.
export function key(names) {
  return el('p', { class: 'key' }, names.map((n, i) => el('span', {},
    el('svg', { width: 26, height: 8, 'aria-hidden': 'true' },
      el('line', { class: `curve c${i % 8} d${i % 4}`, x1: 0, x2: 24, y1: 4, y2: 4 })), ' ', n)));
}

// spark draws the last values of a number.
export function spark(numbers) {
  const values = numbers.map((v) => (Number.isFinite(v) ? v : 0));
  const most = Math.max(...values, 1e-9);
  const step = 120 / Math.max(values.length - 1, 1);
  const points = values.map((v, i) => `${i * step},${25 - (v / most) * 23}`).join(' ');
  return el('svg', { viewBox: '0 0 120 26', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
    el('polyline', { class: 'curve c0', points, 'vector-effect': 'non-scaling-stroke' }));
}

// circle draws which agent owns which part of the circle of hashes (the outer ring), and how large the shares are (the
// inner ring). index gives the colour of an agent.
export function circle(arcs, shares, index, center) {
  const at = (part, r) => {
    const a = part * 2 * Math.PI - Math.PI / 2;
    return `${(100 + r * Math.cos(a)).toFixed(2)} ${(100 + r * Math.sin(a)).toFixed(2)}`;
  };
  const svg = el('svg', { class: 'circle', viewBox: '0 0 200 200', role: 'img',
    'aria-label': 'The circle of the hosts’ hashes, and the agent that owns each part; the table has the shares' });
  const ring = (agent, from, to, outer, inner) => {
    const end = Math.min(to, from + 0.9999);
    const large = end - from > 0.5 ? 1 : 0;
    svg.append(el('path', { class: `f${index(agent) % 8}`, 'data-agent': agent,
      d: `M${at(from, outer)} A${outer} ${outer} 0 ${large} 1 ${at(end, outer)} L${at(end, inner)} `
        + `A${inner} ${inner} 0 ${large} 0 ${at(from, inner)} Z` },
    el('title', {}, `${agent}: ${((to - from) * 100).toFixed(1)} %`)));
  };
  for (const a of arcs) ring(a.agent, a.from || 0, a.to, 98, 84);
  let from = 0;
  for (const s of shares.filter((x) => x.share > 0)) {
    ring(s.agent, from + 0.002, from + Math.max(s.share - 0.002, 0.003), 80, 56);
    if (s.share > 0.06) {
      const [x, y] = at(from + s.share / 2, 68).split(' ');
      svg.append(el('text', { x, y: Number(y) + 3, 'text-anchor': 'middle', class: 'name' }, s.agent.slice(0, 12)));
    }
    from += s.share;
  }
  svg.append(el('text', { x: 100, y: 98, 'text-anchor': 'middle' }, center[0]),
    el('text', { x: 100, y: 113, 'text-anchor': 'middle' }, center[1]));
  return svg;
}
