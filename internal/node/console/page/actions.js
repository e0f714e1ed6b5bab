// What operators do: each action asks for a reason, makes a call, and shows what the agents have answered.

import { call, caller, setCaller } from './api.js';
import { el } from './dom.js';

const dialog = () => document.getElementById('dialog');

// open shows a dialog with a title. Escape and the button Close end it.
function open(title, ...content) {
  const d = dialog();
  d.replaceChildren(el('h2', { id: 'dialog-title' }, title), ...content);
  if (!d.open) d.showModal();
}

const closer = (text = 'Close') => el('button', { type: 'button', click: () => dialog().close() }, text);

// answered shows the answers of a call.
function answered(title, response) {
  const lines = (response.answers || []).map((a) => el('p', { class: a.error ? 'bad' : '' },
    (a.agent ? `${a.agent}: ` : '') + (a.error || a.text || 'done')));
  if (lines.length === 0) lines.push(el('p', {}, 'Done.'));
  open(title, ...lines, el('div', { class: 'actions' }, closer()));
  dialog().querySelector('button').focus();
}

// request asks for a reason and a name, which the next request remembers. It passes the reason to send, which makes
// calls. note says what will happen. done gets what send has returned.
export function request(crawl, { title, note, send, danger, why = true, done }) {
  const reason = el('input', { type: 'text', id: 'why', maxlength: 200, autocomplete: 'off' });
  const name = el('input', { type: 'text', id: 'by', maxlength: 100, placeholder: 'console', value: caller() });
  const problem = el('p', { class: 'bad', role: 'alert' });
  const button = el('button', { class: danger ? 'danger' : 'main', id: 'confirm' }, title);
  open(title, el('form', { submit: async (e) => {
    e.preventDefault();
    button.disabled = true;
    problem.textContent = '';
    setCaller(name.value);
    try {
      const response = await send(why && reason.value ? reason.value : undefined);
      dialog().close();
      crawl.refresh();
      done(response);
    } catch (error) {
      problem.textContent = error.message;
      button.disabled = false;
    }
  } }, el('p', {}, note), why && el('label', {}, 'Why (for the audit line)', reason),
  el('label', {}, 'Your name (for the audit line)', name), problem,
  el('div', { class: 'actions' }, closer('Cancel'), button)));
  (why ? reason : button).focus();
}

let known; // the answer of Verbs

// verbs returns the kinds of orders, as the call Verbs describes them.
export async function verbs() {
  if (!known) known = (await call('Verbs')).verbs || [];
  return known;
}

export const capital = (text) => text[0].toUpperCase() + text.slice(1);

// give gives an order after request, or takes it back with off. The table of verbs says what that does.
async function give(crawl, { verb, about, value, off, done }) {
  try {
    const v = (await verbs()).find((x) => x.name === verb);
    confirm(crawl, { title: capital(`${off ? v.undo : verb} ${about || 'the crawl'}`), method: 'Give', done,
      request: { verb, about, value, off }, note: off ? v.undo_brief : `${value ? `${value}: ` : ''}${v.note}` });
  } catch (e) {
    crawl.tell(e);
  }
}

// confirm makes one call after request, and shows its answers.
function confirm(crawl, { method, request: about = {}, done, ...rest }) {
  request(crawl, { ...rest, send: (why) => call(method, why ? { ...about, why } : about), done(response) {
    answered(rest.title, response);
    if (done) done();
  } });
}

const paused = (status) => (status?.agents || []).some((a) => a.state === 'paused');

export const act = {
  pauseOrResume: (crawl) => give(crawl, { verb: 'pause', off: paused(crawl.status) }),
  checkpoint: (crawl, agent) => confirm(crawl, { title: 'Save the state', method: 'Checkpoint', why: false,
    request: agent ? { agent } : {}, note: `The state of ${agent || 'all agents'} is made durable now.` }),
  stop: (crawl, agent) => confirm(crawl, { title: agent ? `Stop agent ${agent}` : 'Stop the crawl', method: 'Stop',
    danger: true, request: agent ? { agent } : {}, note: agent
      ? 'The agent saves and ends. The other agents go on with its work.'
      : 'All agents save and end. "orbweaver crawl --resume" continues the crawl.' }),
  leave: (crawl, agent) => confirm(crawl, { title: `Let agent ${agent} leave`, method: 'Leave', danger: true,
    request: { agent }, note: 'The agent hands its hosts to the others and ends, within ten minutes. Keep its '
      + 'directory: the pages in its archive are not fetched again.' }),
  block: (crawl, about, done) => give(crawl, { verb: 'block', about, done }),
  unblock: (crawl, about, done) => give(crawl, { verb: 'block', about, off: true, done }),
  drop: (crawl, host, done) => confirm(crawl, { title: `Drop the links of ${host}`, method: 'Drop', danger: true,
    request: { host }, done, note: 'The waiting links of the host are discarded for good.' }),
  removeApp: (crawl, about, done) => confirm(crawl, { title: `Remove application ${about}`, method: 'Give', danger: true,
    request: { verb: 'app', about, off: true }, done, note: 'The crawl drops its waiting URLs and the pages that were '
      + 'not collected.' }),
  rate: (crawl, value, done) => give(crawl, { verb: 'rate', value, done }),
  takeBack: (crawl, order, done) => confirm(crawl, { title: `Take back order ${order.id}`, method: 'TakeBack', done,
    request: { id: order.id }, note: `The order "${order.text}" stands no more.` }),
  paused,
};

export const ask = {
  help(views) {
    open('Keys', el('p', {}, views.flatMap((v) => [el('kbd', {}, v.key), ` ${v.name}  `])),
      el('p', {}, el('kbd', {}, '/'), ' search   ', el('kbd', {}, 'p'), ' pause or resume   ', el('kbd', {}, '?'),
        ' these keys   ', el('kbd', {}, 'Esc'), ' close'),
      el('div', { class: 'actions' }, closer()));
  },
};
