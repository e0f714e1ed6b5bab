// The viewer's bar: it follows the archived page in the frame.
(() => {
  'use strict';
  const frame = document.getElementById('page');
  const { prefix, port, at } = document.body.dataset;
  const byId = id => document.getElementById(id);
  const origin = new RegExp(`^http://${prefix}-(\\d{14})\\.(.+)\\.localhost:${port}$`);
  const codes = { '-': '.', 0: '-', 1: ':', 2: '[', 3: ']', 4: '_' };

  // archived returns the archived URL and the time that a content URL stands for.
  function archived(contentOrigin, path) {
    const m = origin.exec(contentOrigin);
    if (!m) return null;
    const labels = m[2].split('.');
    const scheme = labels[labels.length - 1].startsWith('s-') ? 'https' : 'http';
    const host = labels.map(l => l.slice(2)).join('').replace(/-([-0-4])/g, (_, c) => codes[c]);
    return { at: m[1], url: `${scheme}://${host}${path}` };
  }

  async function show(page) {
    byId('url').value = page.url;
    byId('live').href = page.url;
    document.title = (page.title ? page.title + ' · ' : '') + 'Archive';
    const query = new URLSearchParams({ at: page.at, url: page.url.replace(/#.*/s, '') });
    history.replaceState(null, '', 'view?' + query);
    byId('all').href = 'captures?' + new URLSearchParams({ url: query.get('url') });
    byId('save').href = 'save?' + query;
    const answer = await fetch('info?' + query);
    if (!answer.ok) return;
    const info = await answer.json();
    byId('time').textContent = info.found ? info.day + ' UTC' : 'not in this archive';
    document.body.classList.toggle('missing', !info.found);
    byId('save').hidden = !info.found;
    byId('all').hidden = info.count === 0;
    byId('all').textContent = info.count === 1 ? '1 capture' : `${info.count} captures`;
    const notes = [];
    if (info.status >= 400) notes.push(`the server answered ${info.status}`);
    if (info.truncated) notes.push(`incomplete (${info.truncated})`);
    if (info.long) notes.push(`long page: links after the first ${info.long} may not work`);
    byId('note').textContent = notes.join(', ');
    for (const [id, time] of [['previous', info.previous], ['next', info.next]]) {
      byId(id).classList.toggle('off', !time);
      if (time) byId(id).href = 'view?' + new URLSearchParams({ at: time, url: query.get('url') });
      else byId(id).removeAttribute('href');
    }
  }

  addEventListener('message', event => {
    const message = event.data;
    if (!origin.test(event.origin) || typeof message !== 'object' || message === null) return;
    if (message.orbweaver === 'page' && event.source === frame.contentWindow) {
      const path = String(message.path);
      const page = path.startsWith('/') && archived(event.origin, path);
      if (page) show({ ...page, title: String(message.title ?? '').slice(0, 200) });
    } else if (message.orbweaver === 'go' && navigator.userActivation?.isActive) {
      // A frame within the page may move the whole page after a click or a key, in whichever frame.
      let to;
      try {
        to = new URL(message.url);
      } catch {
        return;
      }
      if (origin.test(to.origin)) frame.src = to.href;
    }
  });
  show({ url: byId('url').value, at });
  frame.src = frame.dataset.src;
})();
