package node

import (
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node/local"
)

// Waiting is what an agent waits for before its crawl starts.
type Waiting = local.Waiting

// Status returns the state of the crawl, or nil before Run. Safe for concurrent use.
func (a *Agent) Status() *crawl.Status {
	s := a.crawler.View.Status()
	if s == nil || a.membership == nil {
		return s
	}
	t := *s
	a.membership.Report(&t, a.crawler.View.Counts().Pages)
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
	return a.membership.Waiting()
}
