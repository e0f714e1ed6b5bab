package link

import (
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

func TestApp(t *testing.T) {
	u := must.Get(weburl.Parse("http://a.example/x"))(t)
	plain := Link{URL: u, Hops: "L", Seed: "a.example"}
	news, list := plain, plain
	news.SetHostDepth(3)
	news.SetApp("news", "a.example/x/")
	list.SetApp("list", "")
	for _, c := range []struct {
		l         Link
		app, root string
	}{{plain, "", ""}, {news, "news", "a.example/x/"}, {list, "list", ""}} {
		got, n, err := Decode(c.l.AppendTo(nil))
		if err != nil || n == 0 || got != c.l || got.App() != c.app || got.Root() != c.root {
			t.Errorf("%q of application %q read as %+v, %v", c.root, c.app, got, err)
		}
		if k := c.l.Key(); k != KeyOf(u).For(c.app) || k.Host != KeyOf(u).Host {
			t.Errorf("application %q: key %x, want that of the URL for it", c.app, k)
		}
	}
	if news.HostDepth() != 3 {
		t.Errorf("depth %d in the host, want 3", news.HostDepth())
	}
	keys := map[Key]bool{plain.Key(): true, news.Key(): true, list.Key(): true}
	news.SetRefetches(1)
	if keys[news.Key()] = true; len(keys) != 4 {
		t.Errorf("%d different keys, want 4", len(keys))
	}
	if news.SetApp("", "ignored"); news.App() != "" || news.Root() != "" || news.Refetches() != 1 {
		t.Errorf("the application is still there: %q", news.Ext)
	}
	if list.SetApp(strings.Repeat("n", 32), strings.Repeat("r", MaxRoot)); len(list.Ext) > MaxExt {
		t.Errorf("an Ext of %d octets", len(list.Ext))
	}
}
