// The view of the orders: what operators have told the whole cluster.

import { call } from './api.js';
import { el, day, table } from './dom.js';
import { act } from './actions.js';

export function orders(main, crawl) {
  const past = el('input', { type: 'checkbox', id: 'past' });
  const list = el('div', { id: 'orders' });
  main.append(el('section', { class: 'card' }, el('div', { class: 'bar' }, el('h2', {}, 'Orders'),
    el('label', { class: 'check' }, past, 'also those that stand no more')), list));

  async function load() {
    try {
      const r = await call('Orders', { past: past.checked });
      const all = (r.orders || []).reverse();
      list.replaceChildren(all.length === 0 ? el('p', { class: 'quiet' }, 'No order stands.') : table([
        { name: 'Id', class: 'line', cell: (o) => o.id },
        { name: 'When', class: 'line', cell: (o) => (o.at ? day(o.at) : '–') },
        { name: 'By', class: 'wide', cell: (o) => o.by || '' },
        { name: 'Order', class: 'wide', cell: (o) => o.text },
        { name: 'Why', class: 'wide', cell: (o) => o.why || '' },
        { name: 'Stands', cell: (o) => (o.stands ? el('span', { class: 'badge good' }, 'yes') : 'no') },
        crawl.role === 'operator' && { name: '', class: 'row', cell: (o) => o.stands
          && el('button', { type: 'button', class: 'take-back', click: () => act.takeBack(crawl, o, load) },
            'Take back') },
      ].filter(Boolean), all));
    } catch (e) {
      crawl.tell(e);
    }
  }
  past.addEventListener('change', load);
  load();
  return {};
}
