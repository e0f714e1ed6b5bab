// This script runs in each archived page, before the page's own scripts. It sends requests for other
// archived origins to this server, tells the viewer where the reader is, and opens links for new
// windows in the same frame. It protects nothing: that is the task of the sandbox and the policies.
(() => {
  'use strict';
  const place = /^http:\/\/([a-z2-7]+-\d{14})\.(.+)\.localhost:(\d+)$/.exec(self.origin);
  if (!place) return;
  const [, prefix, , port] = place;
  const codes = { '.': '--', '-': '-0', ':': '-1', '[': '-2', ']': '-3', '_': '-4' };

  // contentHost spells an archived origin as originLabels does.
  function contentHost(u) {
    let name = u.host.replace(/[.\-:[\]_]/g, c => codes[c]);
    const scheme = u.protocol === 'https:' || u.protocol === 'wss:' ? 's-' : 'p-';
    let labels = '';
    while (name.length > 63 - scheme.length) {
      const n = Math.min(61, name.length - 1);
      labels += 'c-' + name.slice(0, n) + '.';
      name = name.slice(n);
    }
    return `${prefix}.${labels}${scheme}${name}.localhost:${port}`;
  }

  // map returns the URL on this server for any reference of the page.
  function map(ref) {
    let u;
    try {
      u = new URL(String(ref), document.baseURI);
    } catch {
      return ref;
    }
    if (u.protocol !== 'http:' && u.protocol !== 'https:') return ref;
    if (u.hostname.endsWith('.localhost') && u.port === port) return ref;
    return `http://${contentHost(u)}${u.pathname}${u.search}${u.hash}`;
  }
  const mapSet = v => String(v).replace(/(^|,\s*)((?:https?:)?\/\/[^\s,]+)/gi, (_, before, ref) => before + map(ref));
  const mapStyle = v => v.replace(/url\(\s*(['"]?)((?:https?:)?\/\/[^'")]+)\1\s*\)/gi,
    (_, quote, ref) => `url(${quote}${map(ref)}${quote})`);

  // Requests of scripts.
  function replace(object, name, make) {
    const old = object && object[name];
    if (typeof old === 'function') object[name] = make(old);
  }
  replace(self, 'fetch', old => function (input, init) {
    if (input instanceof Request) {
      const to = map(input.url);
      return old.call(this, to === input.url ? input : new Request(to, input), init);
    }
    return old.call(this, map(input), init);
  });
  replace(XMLHttpRequest.prototype, 'open', old => function (method, url, ...rest) {
    return old.call(this, method, map(url), ...rest);
  });
  for (const name of ['Worker', 'SharedWorker', 'EventSource']) {
    replace(self, name, old => new Proxy(old, {
      construct: (target, [url, ...rest]) => Reflect.construct(target, [map(url), ...rest]),
    }));
  }
  replace(Navigator.prototype, 'sendBeacon', () => () => false);
  for (const name of ['pushState', 'replaceState']) {
    replace(History.prototype, name, old => function (state, title, url) {
      old.call(this, state, title, url === undefined || url === null ? url : map(url));
      tell();
    });
  }
  replace(self, 'open', () => url => {
    if (url && navigator.userActivation?.isActive) go(map(url)); // as a browser that blocks popups
    return null;
  });
  for (const name of ['RTCPeerConnection', 'webkitRTCPeerConnection', 'WebTransport']) delete self[name];

  // References that scripts give to elements.
  const attributes = {
    src: ['IMG', 'SCRIPT', 'IFRAME', 'FRAME', 'AUDIO', 'VIDEO', 'SOURCE', 'EMBED', 'TRACK', 'INPUT'],
    href: ['A', 'AREA', 'LINK'], poster: ['VIDEO'], data: ['OBJECT'], action: ['FORM'],
    srcset: ['IMG', 'SOURCE'],
  };
  const classes = {
    IMG: 'Image', SCRIPT: 'Script', IFRAME: 'IFrame', FRAME: 'Frame', AUDIO: 'Media', VIDEO: 'Video', SOURCE: 'Source',
    EMBED: 'Embed', TRACK: 'Track', INPUT: 'Input', LINK: 'Link', OBJECT: 'Object',
  };
  const mapAttribute = (name, v) => name === 'srcset' ? mapSet(v) : absolute(v) ? map(v) : v;
  const absolute = v => /^\s*(https?:|[\\/]\s*[\\/])/i.test(v);
  for (const [name, tags] of Object.entries(attributes)) {
    for (const tag of tags) {
      const proto = classes[tag] && self[`HTML${classes[tag]}Element`]?.prototype;
      const old = proto && Object.getOwnPropertyDescriptor(proto, name);
      if (!old?.set) continue;
      Object.defineProperty(proto, name, {
        ...old, set(v) { old.set.call(this, mapAttribute(name, String(v))); },
      });
    }
  }
  const setAttribute = Element.prototype.setAttribute;
  replace(Element.prototype, 'setAttribute', old => function (name, v) {
    const known = attributes[String(name).toLowerCase()];
    old.call(this, name, known?.includes(this.tagName) ? mapAttribute(String(name).toLowerCase(), String(v)) : v);
  });
  function mend(e) {
    for (const [name, tags] of Object.entries(attributes)) {
      const v = tags.includes(e.tagName) && e.getAttribute(name);
      const to = v && mapAttribute(name, v);
      if (to && to !== v) setAttribute.call(e, name, to);
    }
    const style = e.getAttribute('style');
    if (style?.includes('url(') && mapStyle(style) !== style) setAttribute.call(e, 'style', mapStyle(style));
  }
  new MutationObserver(records => {
    for (const r of records) {
      if (r.type === 'attributes') mend(r.target);
      for (const n of r.addedNodes) {
        if (n.nodeType !== Node.ELEMENT_NODE) continue;
        mend(n);
        n.querySelectorAll('[src],[href],[srcset],[poster],[data],[action],[style]').forEach(mend);
      }
    }
  }).observe(document, {
    subtree: true, childList: true, attributes: true, attributeFilter: [...Object.keys(attributes), 'style'],
  });

  // Where the reader is, and where links lead.
  const outermost = parent !== self && parent === top;
  function tell() {
    if (!outermost) return;
    top.postMessage({ orbweaver: 'page', path: location.pathname + location.search + location.hash,
      title: document.title }, '*');
  }
  function go(url) {
    if (outermost) location.href = url;
    else top.postMessage({ orbweaver: 'go', url: String(url) }, '*');
  }
  // settle makes an element open in a frame that is there.
  function settle(e, event, url) {
    const name = e.target || document.querySelector('base[target]')?.target || '';
    if (name === '' || name === '_self') return;
    if (/^_(blank|top|parent|new|unfencedtop)$/i.test(name) ? outermost : !(name in top.frames)) {
      e.target = '_self';
    } else if (/^_(top|blank|parent|new)$/i.test(name) && url) {
      event.preventDefault();
      go(url);
    }
  }
  addEventListener('click', event => {
    const a = event.composedPath().find(e => e.tagName === 'A' || e.tagName === 'AREA');
    if (a?.href) settle(a, event, a.href);
  }, true);
  addEventListener('submit', event => settle(event.target, event), true);
  for (const name of ['DOMContentLoaded', 'load', 'hashchange', 'popstate', 'pageshow']) addEventListener(name, tell);
})();
