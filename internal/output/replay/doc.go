// Package replay answers: how does a reader see archived pages in a browser, without a request to
// the live web?
//
//	browser -> viewer origin  -> list of pages, captures of a URL, bar with a frame
//	        -> content origin -> nearest capture -> rewritten page, in a sandbox
//
// The viewer is one origin, an address of loopback. Each archived origin is an origin of its own at
// each time, a host name below localhost, which browsers resolve to loopback by themselves:
//
//	<secret>-<14-digit time>.s-www--example--org.localhost:PORT
//
// The last label but one stands for the archived scheme, host and port (see originLabels). A browser
// takes it for a registered domain, so that archived sites share no cookie, no storage and no
// process. A page keeps its paths. So only references to other origins are rewritten, and a
// reference that a script makes from the page's own place needs no help. For the others, the page
// gets a script (frame.js).
//
// Nothing leaves the machine, and a hostile page stays in its frame:
//   - Archived content is only served into a frame of the viewer (Sec-Fetch-Dest). The frame has a
//     sandbox without popups, top navigation, dialogs and downloads.
//   - A frame within the page can move the whole page only after a click or a key.
//   - The content's Content-Security-Policy permits requests to content origins only. The viewer's
//     policy permits the frame to show content origins only, so that a page cannot navigate away.
//   - A script could still make a browser look up a name or open a connection (dns-prefetch,
//     preconnect, WebRTC). Connection-Allowlist prevents that. Browsers without it run no archived
//     scripts.
//   - Cookies, policies, redirects to other places and service workers of the archive are dropped.
//   - A request must name a host of this server. The host name of an archived origin has a secret,
//     and so has the path of the viewer. So other web sites, other programs' pages on loopback and
//     other users of the machine can read nothing.
//
// frame.js is no part of the protection: a page can undo it.
//
// Plain is the simpler way for a server that has pages of its own, such as the console of an agent: archived pages at
// paths of that server, without scripts.
package replay
