// The view of the settings of the agent that serves this page.

import { settings as load } from './api.js';
import { el, table } from './dom.js';

export function settings(main, crawl) {
  const usual = el('input', { type: 'checkbox', id: 'usual' });
  const name = el('input', { type: 'search', id: 'setting', placeholder: 'delay', autocomplete: 'off' });
  const list = el('div', { id: 'settings' });
  main.append(el('section', { class: 'card' }, el('div', { class: 'bar' }, el('h2', {}, 'Settings of this agent at its start'),
    el('label', {}, 'Name', name), el('label', { class: 'check' }, usual, 'also those with their defaults')), list));
  let all = [];

  function show() {
    const rows = all.filter((s) => s.name.includes(name.value.trim().toLowerCase()) && (usual.checked || s.value !== s.default));
    list.replaceChildren(rows.length === 0 ? el('p', { class: 'quiet' }, 'No setting of this name differs from its default.') : table([
      { name: 'Setting', class: 'line', cell: (s) => el('strong', {}, s.name) },
      { name: 'Value', class: 'wide', cell: (s) => s.value || 'none' },
      { name: 'Default', cell: (s) => s.default || 'none' },
      { name: 'About', cell: (s) => s.group },
    ], rows));
  }
  usual.addEventListener('change', show);
  name.addEventListener('input', show);
  load().then((s) => { all = s; show(); }, (e) => crawl.tell(e));
  return { search: name };
}
