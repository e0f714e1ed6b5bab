package crawl

import (
	"fmt"
	"testing"

	"github.com/orbweaver/orbweaver/report"
	"github.com/orbweaver/orbweaver/weburl"
)

// The failed seeds that are kept take bounded memory, and the first of them are kept.
func TestFailedSeedsAreBounded(t *testing.T) {
	c := &Crawler{Rooms: Rooms{Tally: report.NewTally()}}
	seed := func(i int) weburl.Link {
		return weburl.Link{URL: weburl.MustParse(fmt.Sprintf("http://h%d.example/", i)), Seed: "h.example"}
	}
	for i := range maxAgain + 5 {
		c.noteFailed(&finish{link: seed(i), code: report.CodeDNS})
	}
	again := c.failures.again
	if len(again) != maxAgain {
		t.Fatalf("%d failed seeds are kept, want %d", len(again), maxAgain)
	}
	l, _, err := weburl.DecodeLink(again[maxAgain-1])
	if want := seed(maxAgain - 1).URL; err != nil || l.URL != want {
		t.Errorf("the last one kept is %v, %v, want %v", l.URL, err, want)
	}
}
