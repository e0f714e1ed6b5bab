package crawl_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// The pages of a host keep nine tenths of their rate beside its closed port 81 and its silent port 82, both with many
// URLs, which come first. Each dead port is tried as often as one URL, and then all its URLs fail together.
func TestDeadPortsBesideLivePages(t *testing.T) {
	const retries, pages = 2, 1200
	dead := testtier.Rounds(2000, 200_000)
	bubble(t, "delay 100ms", func(t *testing.T) {
		text := `
			retries 2
			delay 100ms
			seed http://a.example/
			dns a.example 192.0.2.1
			down 192.0.2.1:81 0s 1h
			silent 192.0.2.1:82 0s 1h
			http://a.example/robots.txt
			http://a.example/ /1
		`
		for i := range pages {
			text += fmt.Sprintf("http://a.example/%d /%d\n", i+1, i+2)
		}
		s := parsed(t, text)
		for i := range dead {
			s.seeds = append(s.seeds, weburl.MustParse(fmt.Sprintf("http://a.example:%d/%d", 81+i%2, i)))
		}
		w := s.run(t)
		lines := w.parts.Lines(t, w.fs)
		s.check(t, w)
		tries, failed, ends := map[string]int{}, map[string]int{}, map[string]map[time.Time]bool{}
		last := time.Time{}
		for _, l := range lines {
			u := weburl.MustParse(l.URL)
			switch port := u.Port(); {
			case port == "80":
				if l.Code == 200 && l.Time.After(last) {
					last = l.Time
				}
			case strings.HasSuffix(l.Hops, "P"):
				tries[port]++
			default:
				if failed[port]++; ends[port] == nil {
					ends[port] = map[time.Time]bool{}
				}
				ends[port][l.Time.Truncate(time.Second)] = true
				if l.Code != -61 {
					t.Errorf("%s: code %d, want -61", l.URL, l.Code)
				}
			}
		}
		for _, port := range []string{"81", "82"} {
			if tries[port] != retries+1 || failed[port] != dead/2 || len(ends[port]) > 2 {
				t.Errorf("port %s: %d tries, %d URLs failed within %d s; want %d tries, and %d URLs at once", port,
					tries[port], failed[port], len(ends[port]), retries+1, dead/2)
			}
		}
		if took := last.Sub(s.web.Start); took > pages*100*time.Millisecond*10/9 {
			t.Errorf("%d pages took %s", pages, took)
		}
	})
}
