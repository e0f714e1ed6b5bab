// The page's frame: who is logged in, which view is shown, and the state of the crawl.

import { call, session, Refusal } from './api.js';
import { el } from './dom.js';
import { act, ask } from './actions.js';
import { overview } from './overview.js';
import { agents } from './agents.js';
import { hosts } from './hosts.js';
import { events, log } from './logs.js';
import { orders } from './orders.js';
import { steer } from './steer.js';
import { speed } from './speed.js';
import { traffic } from './traffic.js';
import { archive } from './archive.js';
import { topics, hasTopics } from './topics.js';
import { settings } from './settings.js';
import { queue } from './queue.js';
import { scope, applications } from './scope.js';

const $ = (id) => document.getElementById(id);

// A view has a key, a name and a function that fills the page. It returns functions of the view: status gets each new
// status, leave ends the view, and search is the field for the key "/". Some views are shown only if when says so.
const views = [
  { key: '1', id: 'overview', name: 'Overview', show: overview },
  { key: '2', id: 'agents', name: 'Agents', show: agents },
  { key: '3', id: 'hosts', name: 'Hosts', show: hosts },
  { key: '4', id: 'events', name: 'Events', show: events },
  { key: '5', id: 'log', name: 'Log', show: log },
  { key: '6', id: 'orders', name: 'Orders', show: orders },
  { key: '7', id: 'steer', name: 'Steer', show: steer },
  { key: '8', id: 'speed', name: 'Rate', show: speed },
  { key: '9', id: 'traffic', name: 'Traffic', show: traffic },
  { key: '0', id: 'archive', name: 'Archive', show: archive },
  { key: 'q', id: 'queue', name: 'Queue', show: queue },
  { key: 'c', id: 'scope', name: 'Scope', show: scope },
  { key: 'a', id: 'apps', name: 'Applications', show: applications, when: hasApplications },
  { key: 's', id: 'settings', name: 'Settings', show: settings },
  { key: 't', id: 'topics', name: 'Topics', show: topics, when: hasTopics },
];
function hasApplications(status) { return (status?.agents || []).some((a) => (a.applications || []).length > 0); }
const shown = () => views.filter((v) => !v.when || v.when(last) || location.hash === `#${v.id}`);

const statusEvery = 2000;
let role = '';
let current = null; // the functions of the shown view
let last = null; // the last status
let timer = 0;

export const crawl = {
  get role() { return role; },
  get status() { return last; },
  // tell shows an error, or removes it.
  tell(error) {
    if (error instanceof Refusal && error.code === 'unauthenticated') {
      if (role && !error.past) login(); // otherwise the form is there already, or another session has begun
      return;
    }
    $('notice').hidden = !error;
    $('notice').textContent = error ? error.message : '';
  },
  refresh: poll,
};

const states = { crawling: 'good', paused: 'warn', waiting: 'warn', leaving: 'warn', stopping: 'warn', silent: 'bad',
  lost: 'bad' };

export const stateClass = (s) => states[s] || 'quiet';

// stateOf returns the state of the whole crawl.
function stateOf(status) {
  const all = (status.agents || []).map((a) => a.state);
  for (const s of ['silent', 'stopping', 'leaving', 'paused', 'waiting']) {
    const n = all.filter((x) => x === s).length;
    if (n > 0) return [n < all.length ? `${n} of ${all.length} ${s}` : s, stateClass(s)];
  }
  return ['crawling', 'good'];
}

async function poll() {
  clearTimeout(timer);
  if (!role) return;
  try {
    if (!document.hidden) {
      last = await call('Status');
      const [text, kind] = stateOf(last);
      $('state').textContent = text;
      $('state').className = `badge ${kind}`;
      tabs();
      if (current?.status) current.status(last);
      crawl.tell(null);
    }
  } catch (e) {
    if (e instanceof Refusal) crawl.tell(e);
    else crawl.tell(new Error('The agent does not answer. The crawl may have ended.'));
  }
  clearTimeout(timer);
  timer = setTimeout(poll, statusEvery);
}

// tabs shows the names of the views, and marks the present one.
function tabs() {
  const all = shown();
  if ($('tabs').children.length !== all.length) {
    $('tabs').replaceChildren(...all.map((v) => el('a', { href: `#${v.id}`, title: `Key ${v.key}` }, v.name)));
  }
  const id = (all.find((v) => v.id === location.hash.slice(1).split('/')[0]) || all[0]).id;
  for (const a of $('tabs').children) {
    if (a.getAttribute('href') === `#${id}`) a.setAttribute('aria-current', 'page');
    else a.removeAttribute('aria-current');
  }
  $('tabs').querySelector('[aria-current]').scrollIntoView({ block: 'nearest', inline: 'nearest' });
}

function route() {
  if (!role) return;
  const [id, ...rest] = location.hash.slice(1).split('/');
  const view = views.find((v) => v.id === id) || views[0];
  if (current?.leave) current.leave();
  tabs();
  document.title = `${view.name} – Orbweaver`;
  $('main').replaceChildren();
  current = view.show($('main'), crawl, decodeURIComponent(rest.join('/')));
  if (last && current?.status) current.status(last);
  scrollTo(0, 0);
}

function login() {
  role = '';
  clearTimeout(timer);
  if (current?.leave) current.leave();
  current = null;
  $('tabs').hidden = $('account').hidden = $('notice').hidden = true;
  if ($('dialog').open) $('dialog').close();
  const field = el('input', { type: 'password', id: 'token', autocomplete: 'current-password', required: true });
  const problem = el('p', { class: 'bad', role: 'alert', id: 'problem' });
  $('main').replaceChildren(el('form', { class: 'login card', submit: async (e) => {
    e.preventDefault();
    try {
      role = await session('POST', field.value);
      begin();
    } catch (error) {
      problem.textContent = error.message;
      field.select();
    }
  } }, el('h2', {}, 'Log in to the crawl'),
  el('label', { for: 'token' }, 'Token'), field, problem,
  el('button', { class: 'main' }, 'Log in'),
  el('p', { class: 'quiet' }, 'The token is in state/api.json of the crawl directory. The one in state/api-reader.json '
    + 'shows everything and changes nothing. Both are new after each start of the crawl.')));
  document.title = 'Log in – Orbweaver';
  field.focus();
}

function begin() {
  $('tabs').hidden = $('account').hidden = false;
  $('role').textContent = role === 'reader' ? 'reader: looks, changes nothing' : 'operator';
  route();
  poll();
}

$('logout').addEventListener('click', async () => {
  try { await session('DELETE'); } finally { login(); }
});
window.addEventListener('hashchange', () => { route(); $('main').focus({ preventScroll: true }); });
document.addEventListener('visibilitychange', () => { if (!document.hidden) poll(); });

document.addEventListener('keydown', (e) => {
  const typing = e.target.matches?.('input, select, textarea');
  if (e.ctrlKey || e.metaKey || e.altKey || typing || $('dialog').open || !role) return;
  const view = shown().find((v) => v.key === e.key);
  if (view) location.hash = view.id;
  else if (e.key === '/' && current?.search) { e.preventDefault(); current.search.focus(); }
  else if (e.key === 'p' && role === 'operator') act.pauseOrResume(crawl);
  else if (e.key === '?') ask.help(shown());
});

session().then((r) => { role = r; if (role) begin(); else login(); }, (e) => crawl.tell(e));
