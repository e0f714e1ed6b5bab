package node

import "github.com/orbweaver/orbweaver/internal/crawl"

// Status returns the state of the crawl, or nil before Run. Safe for concurrent use.
func (a *Agent) Status() *crawl.Status {
	s := a.crawler.View.Status()
	if s == nil || a.membership == nil {
		return s
	}
	t := *s
	t.Cluster.Exchange = a.exchange(s.Pages)
	t.Cluster.Lost, t.Cluster.ArchiveCopies = a.membership.lists.Lost(), a.membership.spares.Counts()
	t.Cluster.Agents = a.membership.present()
	if o := a.membership.sites; o != nil {
		t.Cluster.Sites = o.Status()
	}
	return &t
}

// Watch makes each Status from now on have glimpses of up to n hosts. Safe for concurrent use.
func (a *Agent) Watch(n int) { a.crawler.View.Watch(n) }

// Waiting returns what this agent waits for before its crawl starts; nil means nothing that takes long. Safe for
// concurrent use.
func (a *Agent) Waiting() *Waiting {
	if a.membership == nil {
		return nil
	}
	return a.membership.joining.waits.Load()
}
