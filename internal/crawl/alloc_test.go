package crawl

import (
	"testing"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

type followAll struct{}

func (followAll) Follow(*Page, *weburl.Link) Choice { return Take }

// The crawl asks a Strategy about every link of every page, and knows most of them already. That
// must cost no memory.
func TestFollowKnownAllocatesNothing(t *testing.T) {
	c := &Crawler{Parts: Parts{Strategy: followAll{}}, known: new(known)}
	u, err := weburl.Parse("http://a.example/page")
	must(t, err)
	c.known.add(u.Key())
	v := new(visit)
	if n := testing.AllocsPerRun(100, func() { c.follow(v, weburl.Link{URL: u, Hops: "L"}, u.Key()) }); n != 0 {
		t.Errorf("%v allocations for a known link, want none", n)
	}
}
