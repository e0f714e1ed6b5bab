package e2e

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// A crawl does not visit what is on its blacklist. A damaged file leaves the list in force. When the file changes, the
// hosts that are off the list are crawled, and what is on it now is not. A run without the entries fetches the rest.
func TestBlacklist(t *testing.T) {
	weighs(t, 2)
	b := bandOf(t, gen.Plain(36, 12), 6*bandDelay, 1, "1")
	first, err := url.Parse(b.made.URL(3, 0))
	if err != nil {
		t.Fatal(err)
	}
	second, err := url.Parse(b.seed())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "blacklist.txt")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	of := func(u *url.URL) (n int) {
		for _, e := range b.web.Log() {
			if strings.Contains(e.URL, "://"+u.Host+"/") {
				n++
			}
		}
		return n
	}
	await := func(kind string, n int) {
		t.Helper()
		for end := time.Now().Add(time.Minute); len(eventsOf(t, b.home(0), kind)) < n; {
			time.Sleep(50 * time.Millisecond)
			if time.Now().After(end) {
				t.Fatalf("no event %s:\n%s", kind, events(t, b.home(0)))
			}
		}
	}
	write(first.Host + " # a complaint\n" + `-never-\d+` + "\n")
	b.ps[0] = start(t, flags(t, b.web, b.home(0), "--quiet", "--scope", "any", "--delay", b.delay.String(),
		"--ip-delay", "0", "--site-delay", "0", "--blacklist", file, b.seed())...)
	await("blacklist", 1)
	b.await(60)
	write("(\n")
	await("blacklist-refused", 1)
	if n := of(first); n > 0 {
		t.Errorf("%d requests to a host on the list", n)
	}
	write("*." + second.Host + "\n")
	await("blacklist", 2)
	time.Sleep(time.Second) // visits under way end
	before := of(second)
	if !ended(b.ps[0], 2*time.Minute) || b.ps[0].code() != 0 {
		t.Fatalf("%s\n%s", tail(b.ps[0].out.String()), events(t, b.home(0)))
	}
	if n := of(second); n != before || of(first) == 0 {
		t.Errorf("%d more requests to a host on the new list, %d to one that is off", n-before, of(first))
	}
	if s := summary(t, b.home(0)); s["stop_reason"] != "blocked" {
		t.Errorf("the crawl ended for %v", s["stop_reason"])
	}
	write("# nothing\n")
	b.ps[0] = start(t, "crawl", "--resume", "--dir", b.home(0), "--quiet")
	b.finish(20)
}
