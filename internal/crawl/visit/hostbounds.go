package visit

import (
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// inHost makes the Ext of the links of one visit that stay in its host. They have at most two depths, and those of
// one depth share an Ext.
type inHost struct {
	On    bool // the scope bounds the depth in some host
	depth int  // of ext
	ext   string
}

// extTo returns the Ext of a link to u that the visit has found by a step with this letter: its HostDepth, if the
// scope needs it. A link that leads to another host enters that host, at depth 0.
func (v *Attempt) extTo(u weburl.URL, hop byte) string {
	if !v.Page.InHost.On || u.Host() != v.Task.Link.URL.Host() {
		return ""
	}
	n := v.Task.Link.HostDepth()
	if link.Deeper(hop) {
		n++
	}
	if v.Page.InHost.depth != n {
		var l link.Link
		l.SetHostDepth(n)
		v.Page.InHost.depth, v.Page.InHost.ext = n, l.Ext
	}
	return v.Page.InHost.ext
}

// staysHere handles a link to a page of a host that this agent does not crawl, with Config.TwoLevel, and reports
// whether it did. It is the variant without the exchange of pages of FC2L-UDCbot (a crawler with a coordinator, from
// a paper). A link to a host of another agent is dropped. If no agent crawls the host yet, its root page takes the
// place of the link: it goes to the agent that gets the host. That holds as well for a host whose agent is not in
// memory. A link out of scope names no host: nobody is asked for an agent of it.
func (f *Follower) staysHere(v *Attempt, l link.Link) bool {
	if !f.cfg.TwoLevel || l.URL.Host() == v.Task.Link.URL.Host() || !f.Scope.Judge(l).In {
		return false
	}
	agent, mine := f.owner(l.URL.Host())
	root := l.URL.Root()
	switch {
	case mine || agent == "" && root == l.URL:
		return false
	case agent == "" && !f.known.has(link.KeyOf(root)):
		to := link.Link{URL: root, Via: l.Via, Hops: l.Hops + "I", Seed: l.Seed}
		if f.Scope.Judge(to).In {
			v.Add(to, link.KeyOf(root), true)
		}
	}
	v.Skip(l, otherAgent)
	return true
}

// otherAgent is the reason why a link is dropped with Config.TwoLevel.
const otherAgent = "otherAgent"

// followRoot accepts, with Config.SeedRoots, the root page of the visit's origin if it is in scope. The root has the
// depth of the URL that is visited, and enters its host. The visit of the first URL of a host adds the root, and the
// visits of the others find it among the known URLs. So the root needs no record of its own: its accept is in
// one batch with the finish of that visit, on the agent that crawls the host.
func (f *Follower) followRoot(v *Attempt) {
	if !f.cfg.SeedRoots || v.App().Of != nil {
		return
	}
	l := &v.Task.Link
	root := l.URL.Root()
	if root == l.URL {
		return
	}
	k := link.KeyOf(root)
	if f.known.has(k) {
		return
	}
	to := link.Link{URL: root, Via: l.URL.String(), Hops: l.Hops + "I", Seed: l.Seed}
	switch d := f.Scope.Judge(to); {
	case d.In:
		v.Add(to, k, f.NotOurs(root))
	case d.Reason != scope.OutOfScope: // the host of an embed may be
		v.Skip(to, report.ReasonBy(string(d.Reason), d.Rule))
	}
}
