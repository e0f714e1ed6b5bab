package past

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/store/object"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/teststore"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// run is the identity of a cluster's crawl.
type run byte

func (r run) Crawl() rpc.ID { return rpc.ID{byte(r)} }

// A store has the records of this crawl, and of an earlier one of the same name. A page that only the earlier one has
// archived is not stored. Segments without an identity are those of another crawl, too.
func TestHeldOfThisCrawl(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim, mem := teststore.NewSim(1, teststore.Traits{}), testdisk.NewMem()
		const a, b, c = "http://a.example/", "http://b.example/", "http://c.example/"
		crawl := func(dir, agent string, r *run, urls ...string) *Segments {
			w, _, err := warc.Open(warc.Config{Dir: dir, FS: mem, Agent: agent, Segments: warc.Segments{Crawl: "web",
				Bytes: 1 << 20}})
			must.Do(t, err)
			head := "HTTP/1.1 200 OK\r\n\r\n"
			for _, u := range urls {
				must.Get(w.Write(&warc.Exchange{URL: u, HTTP: true, HeadLen: len(head),
					Response: warc.Bytes(head + "text of " + u), Request: []byte("GET / HTTP/1.1\r\n\r\n")}))(t)
			}
			must.Do(t, w.Close())
			s := &Segments{FS: mem, Dir: dir, Crawl: "web", Agent: agent, Events: new(kinds),
				Store: Place{URL: "s3://bucket/", Backend: object.Backend(sim)}}
			if r != nil {
				s.Members = *r
			}
			must.Do(t, s.Rest(t.Context()))
			must.Do(t, s.SendRest(t.Context(), false))
			time.Sleep(time.Second) // the names of segments have the time
			return s
		}
		first, second := run(1), run(2)
		crawl("/old", "a2", &first, a, b)
		crawl("/older", "a2", nil, a, c)
		crawl("/other", "a3", &second, a)
		s := crawl("/new", "a2", &second, b, c)
		var got []string
		each := func(r interface{ Crawl() rpc.ID }) []string {
			got = nil
			s.Members = r
			must.Do(t, (&Held{s}).Each(context.Background(), "a2", func(url string) error {
				got = append(got, url)
				return nil
			}))
			slices.Sort(got)
			return got
		}
		if each(second); !slices.Equal(got, []string{b, c}) {
			t.Errorf("the store has %q of this crawl", got)
		}
		if each(first); !slices.Equal(got, []string{a, b}) {
			t.Errorf("the store has %q of the earlier crawl", got)
		}
		for _, unknown := range []interface{ Crawl() rpc.ID }{nil, run(0)} {
			if each(unknown); len(got) > 0 {
				t.Errorf("a crawl without an identity has %q", got)
			}
		}
	})
}
