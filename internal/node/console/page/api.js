// Calls of the crawl: the Connect protocol in JSON, with the cookie of the browser's session.

const service = '/orbweaver.operator.v1.Operator/';

// A Refusal is the crawl's error. code is a Connect code, such as permission_denied. past: the call belongs to a session
// that has ended since, so the refusal says nothing about the present one.
export class Refusal extends Error {
  constructor(code, message) { super(message); this.code = code; this.past = false; }
}

let sessions = 0; // how many logins and logouts have begun

// inSession throws what response was refused for, if it was. began is the value of sessions when the call began.
async function inSession(response, began) {
  if (response.ok) return;
  const error = await refusal(response);
  error.past = began !== sessions;
  throw error;
}

async function refusal(response) {
  const text = await response.text();
  if (response.status === 401) return new Refusal('unauthenticated', text.trim());
  try {
    const { code, message } = JSON.parse(text);
    return new Refusal(code, message || code);
  } catch {
    return new Refusal('unknown', text.trim() || `HTTP ${response.status}`);
  }
}

// caller returns who gives commands here, for the list of orders. It is a name that the operator has typed once.
export function caller() {
  try { return localStorage.getItem('orbweaver-by') || ''; } catch { return ''; } // a browser may refuse to store
}

export function setCaller(name) {
  try { localStorage.setItem('orbweaver-by', name.trim()); } catch { /* the name is not kept */ }
}

const by = () => encodeURIComponent((caller() || 'console').toWellFormed());

// call makes a call and returns its response. An agent that does not answer gives an error.
export async function call(method, request = {}) {
  const began = sessions;
  const response = await fetch(service + method, {
    method: 'POST', headers: { 'Content-Type': 'application/json', 'Connect-Protocol-Version': '1',
      'Orbweaver-By': by() },
    body: JSON.stringify(request), credentials: 'same-origin',
  });
  await inSession(response, began);
  return response.json();
}

// settings returns the settings of the agent that serves this page.
export async function settings() {
  const began = sessions;
  const response = await fetch('/settings', { credentials: 'same-origin' });
  await inSession(response, began);
  return (await response.json()) || [];
}

// follow makes a call that is a stream, and passes each message to heard until the signal aborts.
export async function follow(method, request, signal, heard) {
  const began = sessions;
  const body = new TextEncoder().encode(JSON.stringify(request));
  const framed = new Uint8Array(5 + body.length);
  new DataView(framed.buffer).setUint32(1, body.length);
  framed.set(body, 5);
  const response = await fetch(service + method, {
    method: 'POST', headers: { 'Content-Type': 'application/connect+json', 'Connect-Protocol-Version': '1' },
    body: framed, credentials: 'same-origin', signal,
  });
  await inSession(response, began);
  const reader = response.body.getReader();
  let rest = new Uint8Array(0);
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const all = new Uint8Array(rest.length + value.length);
    all.set(rest);
    all.set(value, rest.length);
    rest = all;
    while (rest.length >= 5) {
      const size = new DataView(rest.buffer, rest.byteOffset).getUint32(1);
      if (rest.length < 5 + size) break;
      const text = new TextDecoder().decode(rest.subarray(5, 5 + size));
      const last = rest[0] & 2;
      rest = rest.slice(5 + size);
      if (!last) {
        heard(JSON.parse(text));
        continue;
      }
      const { error } = JSON.parse(text || '{}');
      if (error) throw new Refusal(error.code, error.message || error.code);
      return;
    }
  }
}

// session asks for the role of the browser: operator, reader or none. POST logs in with a token, DELETE logs out.
export async function session(method = 'GET', token) {
  if (method !== 'GET') sessions++;
  const response = await fetch('/session', {
    method, credentials: 'same-origin', headers: token === undefined ? {} : { 'Content-Type': 'application/json' },
    body: token === undefined ? undefined : JSON.stringify({ token }),
  });
  if (!response.ok) throw await refusal(response);
  return (await response.json()).role;
}
