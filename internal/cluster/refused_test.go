package cluster

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/boundary"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// refuser sends the pages whose paths begin with /out to another agent, which refuses those of /out/bad.
type refuser struct {
	*boundary.Store
	garbled bool // what this agent reads of a stored page is no page

	mu   sync.Mutex // guards the fields below
	took []string   // pages that the other agent took
	asks int        // calls with a page that it refuses
}

func (r *refuser) Sort(x *warc.Exchange, _ func([]byte) ([]byte, []byte, error)) (link.Destination, bool, error) {
	return link.Destination{Hash: 1}, strings.Contains(x.URL, "/out"), nil
}

func (r *refuser) ByPages() bool                          { return false }
func (r *refuser) Category(link.Destination) string       { return "" }
func (r *refuser) Categories() []string                   { return nil }
func (r *refuser) Keeper(link.Destination) (string, bool) { return "other", false }

func (r *refuser) Send(_ context.Context, _ string, pages []link.Link) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, page := range pages {
		u := page.URL.String()
		if strings.Contains(u, "/out/bad") {
			r.asks++
			return crawl.ErrImport
		}
		if !slices.Contains(r.took, u) {
			r.took = append(r.took, u)
		}
	}
	return nil
}

func (r *refuser) Read(at link.Stored) (io.ReadCloser, error) {
	if r.garbled {
		return io.NopCloser(strings.NewReader("garbled")), nil
	}
	return r.Store.Read(at)
}

// An agent refuses a page that is whole here, so this agent keeps the page and follows its links. The other pages of
// its batch arrive. If this agent cannot read the page either, the page is given up, not sent for ever.
func TestRefusedPage(t *testing.T) {
	for _, c := range []struct {
		name    string
		garbled bool
	}{{"this agent keeps it", false}, {"nobody can read it", true}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { refused(t, c.garbled) })
		})
	}
}

func refused(t *testing.T, garbled bool) {
	const at = "http://a.example"
	s := newStory(t, `
seed http://a.example/
dns a.example 192.0.2.1
http://a.example/ /out/1 /out/bad /out/2 /out/3
http://a.example/out/1
http://a.example/out/2
http://a.example/out/3
http://a.example/out/bad /found
http://a.example/found
`)
	r := &refuser{garbled: garbled}
	s.among(Others{Placement: onlySelf, Exchange: onlySelf, Boundary: r, Pages: r}, nil, r)
	w, end := s.start(t, testdisk.NewMem())
	time.Sleep(time.Minute)
	status := w.View.Status()
	end()
	kept := 1
	if garbled {
		kept = 0
	}
	if b := status.Cluster.Boundary; b.Refused != 1 || b.Damaged != 0 || b.Waiting != 0 || b.Taken != int64(kept) {
		t.Errorf("counts of pages: %+v", *b)
	}
	from := status.Cluster.Boundary.From
	if len(from) != kept || kept == 1 && (from[0].Pages != 1 || from[0].Bytes < 100) {
		t.Errorf("pages by agent: %+v", from)
	}
	slices.Sort(r.took)
	if !slices.Equal(r.took, []string{at + "/out/1", at + "/out/2", at + "/out/3"}) || r.asks > 2 {
		t.Errorf("the other agent took %q, and refused %d times", r.took, r.asks)
	}
	fetched := map[string]int{}
	for _, q := range s.web.Told() {
		fetched[q.URL]++
	}
	if fetched[at+"/out/bad"] != 1 || fetched[at+"/found"] != kept {
		t.Errorf("requests: %v", fetched)
	}
}
