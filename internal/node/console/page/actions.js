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

// request asks for a reason and a name, which the next request remembers. It passes the reason to send, which makes calls. note says what will happen. done gets what send
// has returned.
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

// give gives an order after request: one of the verbs of the call Verbs. off takes it back.
const give = (crawl, { verb, about, value, off, ...rest }) => confirm(crawl, { ...rest, method: 'Give',
  request: { verb, about, value, off } });

// confirm makes one call after request, and shows its answers.
function confirm(crawl, { method, request: about = {}, done, ...rest }) {
  request(crawl, { ...rest, send: (why) => call(method, why ? { ...about, why } : about), done(response) {
    answered(rest.title, response);
    if (done) done();
  } });
}

const paused = (status) => (status?.agents || []).some((a) => a.state === 'paused');

export const act = {
  pauseOrResume(crawl) {
    if (paused(crawl.status)) {
      give(crawl, { title: 'Resume the crawl', verb: 'pause', off: true, note: 'All agents begin requests again.' });
    } else {
      give(crawl, { title: 'Pause the crawl', verb: 'pause',
        note: 'No agent begins a request until the crawl is resumed. Open requests end as usual.' });
    }
  },
  checkpoint: (crawl, agent) => confirm(crawl, { title: 'Save the state', method: 'Checkpoint', why: false,
    request: agent ? { agent } : {}, note: `The state of ${agent || 'all agents'} is made durable now.` }),
  stop: (crawl, agent) => confirm(crawl, { title: agent ? `Stop agent ${agent}` : 'Stop the crawl', method: 'Stop',
    danger: true, request: agent ? { agent } : {}, note: agent
      ? 'The agent saves and ends. The other agents go on with its work.'
      : 'All agents save and end. "orbweaver crawl --resume" continues the crawl.' }),
  block: (crawl, host, done) => give(crawl, { title: `Block ${host}`, verb: 'block', about: host, done,
    note: 'No more requests go there. Its links wait.' }),
  unblock: (crawl, host, done) => give(crawl, { title: `Unblock ${host}`, verb: 'block', about: host, off: true, done,
    note: 'Requests go there again.' }),
  drop: (crawl, host, done) => confirm(crawl, { title: `Drop the links of ${host}`, method: 'Drop', danger: true,
    request: { host }, done, note: 'The waiting links of the host are discarded for good.' }),
  delay: (crawl, about, delay, done) => give(crawl, { title: 'Set the delay', verb: 'delay', done, about, value: delay,
    note: `${about || 'All hosts'}: delay ${delay}. It holds until it is taken back.` }),
  rate: (crawl, rate, done) => give(crawl, { title: 'Set the rate', verb: 'rate', value: rate, done,
    note: `The rate of all agents together becomes: ${rate}` }),
  takeBack: (crawl, order, done) => confirm(crawl, { title: `Take back order ${order.id}`, method: 'TakeBack', done,
    request: { id: order.id }, note: `The order "${order.verb} ${order.about || 'everything'}" stands no more.` }),
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
