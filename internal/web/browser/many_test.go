package browser

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// TestThousandViews shows 1,000 pages in four browsers. One in 20 crashes, hangs or takes all memory; that costs its
// own view alone. The memory of the browsers does not grow with the views, and nothing of them is left.
func TestThousandViews(t *testing.T) {
	testtier.OnlySoak(t, "it takes minutes")
	const views, at = 1000, 4
	bad := []string{"<script>setTimeout(() => { for (;;) {} }, 50)</script>",
		"<script>const a = []; setInterval(() => { const b = new Uint8Array(64 << 20); b.fill(1); a.push(b) }, 1)" +
			"</script>",
		"<script>for (;;) alert(1)</script>"}
	p := pool(t, Config{Views: at, Memory: 800 << 20, Recycle: 50})
	s := &site{files: map[string]string{"https://a.example/app.js": `fetch("/data.json").then(r => r.json()).then(d => {
		document.body.innerHTML = "<a href=/next>" + d.text + "</a>" })`,
		"https://a.example/data.json": `{"text": "from the server"}`}}
	var all sync.WaitGroup
	var mu sync.Mutex // guards the counts
	ends, early, late := map[Ending]int{}, int64(0), int64(0)
	next := make(chan int)
	for range at {
		all.Go(func() {
			for i := range next {
				html := "<!DOCTYPE html><body><script src=/app.js></script>"
				isBad := i%20 == 7
				if isBad {
					html = "<!DOCTYPE html><body>" + bad[i/20%len(bad)]
				}
				u := must.Get(weburl.Parse(fmt.Sprint("https://a.example/", i)))(t)
				f, err := p.View(t.Context(), Document{u, 200, header(""), []byte(html)},
					Bounds{Time: 20 * time.Second, Stuck: 6 * time.Second}, Wants{}, s)
				if err != nil {
					t.Error(err)
					continue
				}
				mu.Lock()
				ends[f.Ended]++
				mu.Unlock()
				if ok := f.Ended == Rested && strings.Contains(f.Text, "from the server"); ok == isBad {
					t.Errorf("view %d: %s %v %q", i, f.Ended, f.Why, f.Text)
				}
				memory := p.memory()
				mu.Lock()
				if i < views/4 {
					early = max(early, memory)
				} else if i >= views*3/4 {
					late = max(late, memory)
				}
				mu.Unlock()
			}
		})
	}
	began := time.Now()
	for i := range views {
		next <- i
	}
	close(next)
	all.Wait()
	started, replaced := p.Started()
	t.Logf("%d views in %s: %v; %d browsers, %d of them after a page that broke one; most memory of one idle "+
		"browser: %d MB in the first quarter, %d MB in the last", views, time.Since(began).Round(time.Second), ends,
		started, replaced, early>>20, late>>20)
	if late > early*3/2 {
		t.Errorf("the browsers have grown from %d to %d bytes", early, late)
	}
}

// memory returns what an idle browser takes, if there is one.
func (p *Pool) memory() (bytes int64) {
	select {
	case s := <-p.slots:
		if s.process != nil {
			bytes, _ = s.process.Memory()
		}
		p.slots <- s
	default:
	}
	return bytes
}
