// The view for steering: forms for seeds, the blacklist, and delays of hosts.

import { call } from './api.js';
import { el, count, table, lines, linesField } from './dom.js';
import { act, request } from './actions.js';

const seedsMost = 1000; // of a call
const barsMost = 500; // of a form; a file of --blacklist has room for more

const results = { new: 'good', known: 'quiet', taken: 'good', done: 'good', refused: 'bad', failed: 'bad' };
const badge = (result) => el('span', { class: `badge ${results[result] || 'quiet'}` }, result);

// told says which agents lack an order.
const told = (all) => (all || []).filter((a) => a.error).map((a) => `${a.agent} has not got it yet: ${a.error}`);

// form makes a form that a reader sees and cannot use.
function form(crawl, attributes, ...content) {
  const all = el('fieldset', { class: 'form', disabled: crawl.role !== 'operator' }, ...content);
  return el('form', attributes, all, crawl.role !== 'operator'
    && el('p', { class: 'quiet' }, 'A reader can look, and cannot change anything.'));
}

export function steer(main, crawl) {
  main.append(seeds(crawl));
  const reload = [];
  const load = async () => {
    try {
      const all = (await call('Orders')).orders || [];
      for (const draw of reload) draw(all);
    } catch (e) {
      crawl.tell(e);
    }
  };
  main.append(blacklist(crawl, reload, load), delays(crawl, reload, load));
  load();
  return { search: document.getElementById('seeds') };
}

function seeds(crawl) {
  const field = linesField('seeds', 'Seeds, one URL on each line', 'https://www.example.org/');
  const answers = el('div', { id: 'seed-answers', role: 'status' });
  return el('section', { class: 'card' }, el('h2', {}, 'Add seeds'), form(crawl, { submit: (e) => {
    e.preventDefault();
    const urls = lines(field.text.value);
    if (urls.length === 0 || urls.length > seedsMost) {
      answers.replaceChildren(el('p', { class: 'bad' },
        `Give 1 to ${seedsMost} URLs; these are ${count(urls.length)}.`));
      return;
    }
    request(crawl, { title: 'Add seeds', note: `${count(urls.length)} URL${urls.length > 1 ? 's' : ''}, such as `
      + `${urls[0]}. Seeds extend the scope, as those of the start do.`,
    send: (why) => call('AddSeeds', { urls, why }), done(r) {
      const all = r.seeds || [];
      const counts = Object.entries(Object.groupBy(all, (s) => s.result)).map(([k, v]) => `${count(v.length)} ${k}`);
      answers.replaceChildren(el('p', {}, `${counts.join(', ')}.`, (r.orders || []).length > 0
        && ` The scope is extended by order ${r.orders.join(', ')}.`), ...told(r.told).map((t) => el('p', {}, t)),
      table([
        { name: 'URL', class: 'wide', cell: (s) => s.url },
        { name: 'Answer', cell: (s) => badge(s.result) },
        { name: 'Agent', cell: (s) => s.agent || '' },
        { name: 'Why', class: 'wide', cell: (s) => s.text || '' },
      ].filter((c) => c.name !== 'Agent' || all.some((s) => s.agent)), all));
      if (!all.some((s) => s.result === 'refused')) field.text.value = '';
    } });
  } }, field, el('div', { class: 'actions' }, el('button', { class: 'main', id: 'add-seeds' }, 'Add'))), answers);
}

// preview counts the links that an exclusion would set aside. Agents may read on after an answer.
async function preview(pattern) {
  const sum = { waiting: 0, matched: 0, examples: [], silent: [] };
  const agents = new Map();
  for (let token = ''; ;) {
    const r = await call('ExcludePreview', { pattern, token });
    for (const a of r.agents || []) agents.set(a.agent || '', a);
    token = r.token;
    if (!token) break;
  }
  for (const a of agents.values()) {
    sum.waiting += Number(a.waiting || 0);
    sum.matched += Number(a.matched || 0);
    sum.examples.push(...(a.examples || []));
    if (a.error) sum.silent.push(`${a.agent}: ${a.error}`);
  }
  return sum;
}

function blacklist(crawl, reload, load) {
  const kind = el('select', { id: 'kind' }, el('option', { value: 'block' }, 'hosts, domains or address ranges'),
    el('option', { value: 'exclude' }, 'URL patterns'));
  const field = linesField('bars', 'One on each line', 'www.example.org\n*.example.org\n192.0.2.0/24');
  const look = el('button', { type: 'button', id: 'preview', hidden: true }, 'Preview');
  const button = el('button', { class: 'main', id: 'bar' }, 'Block');
  const answers = el('div', { id: 'bar-answers', role: 'status' });
  const list = el('div', { id: 'bars-list' });
  const patterns = () => kind.value === 'exclude';
  kind.addEventListener('change', () => {
    look.hidden = !patterns();
    button.textContent = patterns() ? 'Exclude' : 'Block';
    field.text.placeholder = patterns() ? '/calendar/\n\\.iso$' : 'www.example.org\n*.example.org\n192.0.2.0/24';
    answers.replaceChildren();
  });
  const entries = () => {
    const all = lines(field.text.value);
    if (all.length > 0 && all.length <= barsMost) return all;
    answers.replaceChildren(el('p', { class: 'bad' }, `Give 1 to ${barsMost} lines; these are ${count(all.length)}. `
      + 'A file of --blacklist has room for more.'));
    return null;
  };
  look.addEventListener('click', async () => {
    const all = entries();
    if (!all) return;
    look.disabled = true;
    answers.replaceChildren(el('p', { class: 'quiet' }, 'The agents count…'));
    const shown = [];
    for (const pattern of all) {
      try {
        const s = await preview(pattern);
        shown.push({ pattern, text: `${count(s.matched)} of ${count(s.waiting)} waiting links match.`,
          examples: s.examples.slice(0, 5), silent: s.silent });
      } catch (e) {
        shown.push({ pattern, text: e.message, bad: true, examples: [], silent: [] });
      }
    }
    answers.replaceChildren(...shown.map((s) => el('div', { class: 'preview' }, el('p', { class: s.bad ? 'bad' : '' },
      el('code', {}, s.pattern), ' ', s.text),
    s.examples.length > 0 && el('ul', {}, s.examples.map((u) => el('li', {}, u))),
    s.silent.map((t) => el('p', { class: 'bad' }, t)))));
    look.disabled = false;
  });
  reload.push((all) => list.replaceChildren(bars(crawl, all.filter((o) => o.verb === 'block' || o.verb === 'exclude'),
    'Nothing is blocked by an order.', load)));
  return el('section', { class: 'card' }, el('h2', {}, 'Blacklist'), form(crawl, { submit: (e) => {
    e.preventDefault();
    const all = entries();
    if (!all) return;
    const verb = kind.value; // the form can change while calls run
    request(crawl, { title: button.textContent, note: `${count(all.length)} line${all.length > 1 ? 's' : ''}, such as `
      + `${all[0]}. ${patterns() ? 'Links that match are set aside' : 'Links of these hosts wait'} until this is taken `
      + 'back.',
    send: (why) => each(all, (about) => call('Give', { verb, about, why })), done(r) {
      answers.replaceChildren(table([{ name: 'Line', class: 'wide', cell: (x) => x.line },
        { name: 'Answer', cell: (x) => badge(x.error ? 'refused' : 'done') },
        { name: 'Details', class: 'wide', cell: (x) => x.error || details(x.answer) }], r));
      if (!r.some((x) => x.error)) field.text.value = '';
      load();
    } });
  } }, el('label', {}, 'Kind', kind), field, el('div', { class: 'actions' }, look, button)), answers, list,
  files(crawl));
}

// files shows the files of --blacklist, which the console cannot change. Agents with the same file are shown together.
function files(crawl) {
  const all = el('div', { id: 'files' });
  const find = el('input', { type: 'search', id: 'files-find', autocomplete: 'off', spellcheck: 'false', input: () => {
    clearTimeout(wait);
    wait = setTimeout(load, 150);
  } });
  const field = el('label', { hidden: true }, 'Find in the files', find);
  let wait = 0;
  let last = 0;
  async function load() {
    const mine = ++last;
    try {
      const r = await call('Blacklists', { search: find.value.trim(), limit: 100 });
      if (mine !== last) return;
      const agents = r.agents || [];
      const same = Object.groupBy(agents, (a) => JSON.stringify([a.file, a.entries, a.matches, a.list]));
      field.hidden = !agents.some((a) => Number(a.entries || 0) > 100);
      all.replaceChildren(...Object.values(same).map(file),
        ...(r.silent || []).map((a) => el('p', { class: 'bad' }, `${a.agent}: ${a.error}`)));
    } catch (e) {
      crawl.tell(e);
    }
  }
  load();
  return el('div', { class: 'files' }, field, all);
}

// file shows what agents have read from a file of --blacklist.
function file(agents) {
  const { file: name, entries, matches, list = [] } = agents[0];
  const names = agents.map((a) => a.agent).filter(Boolean).join(', ');
  const some = Number(matches || 0) > list.length ? `; these are the first ${count(list.length)} of `
    + `${count(matches)}` : '';
  return el('div', { class: 'file' }, el('p', {}, 'From the file ', el('code', {}, name), names && ` of ${names}`,
    `: ${count(entries || 0)} entr${Number(entries) === 1 ? 'y' : 'ies'}${some}. They change with the file.`),
  list.length > 0 && table([{ name: 'About', class: 'wide', cell: (e) => e.about },
    { name: 'Line', cell: (e) => (e.why.match(/line (\d+)$/) || ['', e.why])[1] }], list));
}

// details tells what the agents have answered.
function details(r) {
  return [...(r.answers || []).map((a) => (a.agent ? `${a.agent}: ` : '') + (a.error || a.text || 'done')),
    ...told(r.told)].join('; ');
}

// each makes a call for each line, one after the other.
async function each(all, send) {
  const answers = [];
  for (const line of all) {
    try {
      answers.push({ line, answer: await send(line) });
    } catch (e) {
      if (e.code === 'unauthenticated' || e.code === 'permission_denied') throw e;
      answers.push({ line, error: e.message });
    }
  }
  return answers;
}

// bars lists orders of one view, and takes them back.
function bars(crawl, all, none, load) {
  if (all.length === 0) return el('p', { class: 'quiet' }, none);
  return table([
    { name: 'About', class: 'wide', cell: (o) => o.about || 'all hosts' },
    { name: 'Verb', cell: (o) => o.verb + (o.value ? ` ${o.value}` : '') },
    { name: 'Why', class: 'wide', cell: (o) => o.why || '' },
    crawl.role === 'operator' && { name: '', class: 'row', cell: (o) => el('button', { type: 'button',
      class: 'take-back', click: () => act.takeBack(crawl, o, load) }, 'Take back') },
  ].filter(Boolean), all);
}

function delays(crawl, reload, load) {
  const about = el('input', { type: 'text', id: 'delay-about', size: 34, autocomplete: 'off', spellcheck: 'false',
    placeholder: 'www.example.org or *.example.org' });
  const delay = el('input', { type: 'text', id: 'delay', size: 28, required: true, autocomplete: 'off',
    placeholder: '10s, or 10s 8-18 mon-fri, else 2s' });
  const list = el('div', { id: 'delays' });
  reload.push((all) => list.replaceChildren(bars(crawl, all.filter((o) => o.verb === 'delay'),
    'No order sets a delay. The setting --delay holds.', load)));
  return el('section', { class: 'card' }, el('h2', {}, 'Delays'), form(crawl, { submit: (e) => {
    e.preventDefault();
    act.delay(crawl, about.value.trim(), delay.value.trim(), load);
  } }, el('div', { class: 'bar' }, el('label', {}, 'Host or domain; empty: all hosts', about),
    el('label', {}, 'Delay between requests', delay),
    el('button', { class: 'main', id: 'set-delay' }, 'Set'))), list);
}
