// The view for steering: forms for seeds and for orders of all verbs that have words, and the files of --exclude-file.

import { call } from './api.js';
import { el, count, table, lines, linesField } from './dom.js';
import { act, capital, request, verbs } from './actions.js';

const seedsMost = 1000; // of a call
const ordersMost = 500; // of a form; a file of --exclude-file has room for more

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
  main.append(seeds(crawl), orders(crawl), el('section', { class: 'card' }, el('h2', {}, 'Blacklists'), files(crawl)));
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
    sum.waiting += a.waiting || 0;
    sum.matched += a.matched || 0;
    sum.examples.push(...(a.examples || []));
    if (a.error) sum.silent.push(`${a.agent}: ${a.error}`);
  }
  return sum;
}

// orders gives orders of a verb, each on a line as the command of ctl has its words, and lists those that stand. The
// call Verbs describes the verbs.
function orders(crawl) {
  const kind = el('select', { id: 'kind' });
  const about = el('p', { class: 'quiet', id: 'about' });
  const field = linesField('lines', 'One on each line', '');
  const look = el('button', { type: 'button', id: 'preview', hidden: true }, 'Preview');
  const button = el('button', { class: 'main', id: 'give', disabled: true }); // until the verbs are known
  const answers = el('div', { id: 'give-answers', role: 'status' });
  const list = el('div', { id: 'standing' });
  let all = []; // the verbs
  const verb = () => all.find((v) => v.name === kind.value);

  async function load() {
    try {
      const mine = ((await call('Orders')).orders || []).filter((o) => o.verb === kind.value);
      list.replaceChildren(mine.length === 0 ? el('p', { class: 'quiet' }, 'No such order stands.') : table([
        { name: 'Order', class: 'wide', cell: (o) => o.text },
        { name: 'Why', class: 'wide', cell: (o) => o.why || '' },
        crawl.role === 'operator' && { name: '', class: 'row', cell: (o) => el('button', { type: 'button',
          class: 'take-back', click: () => act.takeBack(crawl, o, load) }, 'Take back') },
      ].filter(Boolean), mine));
    } catch (e) {
      crawl.tell(e);
    }
  }
  function choose() {
    const v = verb();
    about.textContent = `${v.about} ${v.note}`;
    field.text.placeholder = v.example;
    look.hidden = !v.preview;
    button.textContent = capital(v.name);
    button.disabled = false;
    answers.replaceChildren();
    load();
  }
  kind.addEventListener('change', choose);
  verbs().then((known) => {
    all = known.filter((v) => v.words && !v.call);
    kind.replaceChildren(...all.map((v) => el('option', { value: v.name }, capital(v.name))));
    choose();
  }).catch((e) => crawl.tell(e));

  const entries = () => {
    const given = lines(field.text.value);
    if (given.length > 0 && given.length <= ordersMost) return given;
    answers.replaceChildren(el('p', { class: 'bad' }, `Give 1 to ${ordersMost} lines; these are ${count(given.length)}. `
      + (kind.value === 'block' || kind.value === 'exclude' ? 'A file of --exclude-file has room for more.' : '')));
    return null;
  };
  look.addEventListener('click', async () => {
    const given = entries();
    if (!given) return;
    look.disabled = true;
    answers.replaceChildren(el('p', { class: 'quiet' }, 'The agents count…'));
    const shown = [];
    for (const pattern of given) {
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
  return el('section', { class: 'card' }, el('h2', {}, 'Give orders'), form(crawl, { submit: (e) => {
    e.preventDefault();
    const given = entries();
    if (!given) return;
    const { name, note } = verb(); // the form can change while calls run
    request(crawl, { title: capital(name), note: `${count(given.length)} line${given.length > 1 ? 's' : ''}, such as `
      + `${given[0]}. ${note}`,
    send: (why) => each(given, (words) => call('Give', { verb: name, words, why })), done(r) {
      answers.replaceChildren(table([{ name: 'Line', class: 'wide', cell: (x) => x.line },
        { name: 'Answer', cell: (x) => badge(x.error ? 'refused' : 'done') },
        { name: 'Details', class: 'wide', cell: (x) => x.error || details(x.answer) }], r));
      if (!r.some((x) => x.error)) field.text.value = '';
      load();
    } });
  } }, el('label', {}, 'Order', kind), about, field, el('div', { class: 'actions' }, look, button)), answers, list);
}

// files shows the files of --exclude-file, which the console cannot change. Agents with the same file are shown together.
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
      field.hidden = !agents.some((a) => a.entries > 100);
      all.replaceChildren(...Object.values(same).map(file),
        ...(r.silent || []).map((a) => el('p', { class: 'bad' }, `${a.agent}: ${a.error}`)));
    } catch (e) {
      crawl.tell(e);
    }
  }
  load();
  return el('div', { class: 'files' }, field, all);
}

// file shows what agents have read from a file of --exclude-file.
function file(agents) {
  const { file: name, entries, matches, list = [] } = agents[0];
  const names = agents.map((a) => a.agent).filter(Boolean).join(', ');
  const some = matches > list.length ? `; these are the first ${count(list.length)} of `
    + `${count(matches)}` : '';
  return el('div', { class: 'file' }, el('p', {}, 'From the file ', el('code', {}, name), names && ` of ${names}`,
    `: ${count(entries || 0)} entr${entries === 1 ? 'y' : 'ies'}${some}. They change with the file.`),
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
