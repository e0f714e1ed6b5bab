// This service worker answers /api/tide/ID.json from one file that has all tides. The server does not have these URLs.
let all;

self.addEventListener('install', () => self.skipWaiting());
self.addEventListener('activate', (e) => e.waitUntil(self.clients.claim()));
self.addEventListener('fetch', (e) => {
  const tide = new URL(e.request.url).pathname.match(/^\/api\/tide\/(.+)\.json$/);
  if (tide) e.respondWith(answer(tide[1]));
});

async function answer(id) {
  all ||= fetch('/api/tides.json').then((r) => r.json());
  const tide = (await all)[id];
  return tide ? Response.json(tide) : new Response('', { status: 404 });
}
