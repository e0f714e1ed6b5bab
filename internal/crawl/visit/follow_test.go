package visit

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A strategy is a Strategy that decides by the path, and notes what it was asked about.
type strategy struct {
	asked *[]string
	by    map[string]Choice
}

func (s strategy) Follow(_ *Page, l *link.Link) Choice {
	*s.asked = append(*s.asked, l.URL.Path())
	l.Level = 3
	return s.by[l.URL.Path()]
}

// A planner is a strategy that may offer links.
type planner struct{ strategy }

func (planner) Visited(*Visit) ([]byte, error)             { return nil, nil }
func (planner) Restore(link.Link, []byte) error            { return nil }
func (planner) Next(time.Time) (*Wanted, time.Time, error) { return nil, time.Time{}, nil }

// A reader is a strategy that judges links by their page.
type reader struct{ strategy }

func (reader) SeedLevel() uint8 { return 0 }
func (reader) Passed(*Page)     {}

// follower returns a Follower of a scope of one host.
func follower(t *testing.T, parts Parts, cfg scope.Config) *Follower {
	t.Helper()
	s := must.Get(scope.New(cfg, []weburl.URL{weburl.MustParse("http://a.example/")}))(t)
	parts.Scope = s
	if parts.Applications == nil {
		parts.Applications = apps{}
	}
	return &New(Config{}.WithDefaults(), parts, 0).Links
}

func keyOf(url string) link.Key { return link.KeyOf(weburl.MustParse(url)) }

// A known link ends at the worker, but a Strategy is asked about it first, and a Reader is not. What a Planner is
// offered is in scope.
func TestFollow(t *testing.T) {
	by := map[string]Choice{"/take": Take, "/known": Take, "/offer": Offer, "/drop": Drop}
	for _, c := range []struct {
		name          string
		with          func(strategy) Strategy
		want, offered string
		asked         string
	}{
		{"none", func(strategy) Strategy { return nil },
			"fetched +L:a.example/take +L:a.example/known +L:a.example/offer +L:a.example/drop " +
				"-outOfScope:c.example/take -outOfScope:c.example/offer", "", ""},
		{"strategy", func(s strategy) Strategy { return s }, "fetched +L:a.example/take -outOfScope:c.example/take", "",
			"/take /known /offer /drop /take /offer"},
		{"planner", func(s strategy) Strategy { return planner{s} },
			"fetched +L:a.example/take -outOfScope:c.example/take", "/offer",
			"/take /known /offer /drop /take /offer"},
		{"reader", func(s strategy) Strategy { return reader{s} },
			"fetched +L:a.example/take -outOfScope:c.example/take", "",
			"/take /offer /drop /take /offer"},
	} {
		var asked []string
		f := follower(t, Parts{Strategy: c.with(strategy{&asked, by})}, scope.Config{})
		f.known.add(keyOf("http://a.example/known"))
		v := new(Attempt)
		for _, u := range []string{"http://a.example/take", "http://a.example/known", "http://a.example/offer",
			"http://a.example/drop", "http://c.example/take", "http://c.example/offer"} {
			f.Follow(v, to(u), keyOf(u))
		}
		offered := ""
		for _, l := range v.Plan().Offered {
			offered += l.URL.Path()
		}
		if told(v) != c.want || offered != c.offered || strings.Join(asked, " ") != c.asked {
			t.Errorf("%s: %s, offered %q, asked about %q;\nwant %s, %q, %q", c.name, told(v), offered, asked, c.want,
				c.offered, c.asked)
		}
		for _, l := range decoded(t, &v.Links) {
			if wants := uint8(3); (l.Level == wants) != (c.name != "none") {
				t.Errorf("%s: %s has level %d", c.name, l.URL, l.Level)
			}
		}
	}
}

// decoded returns the links in scope.
func decoded(t *testing.T, ls *Links) (all []link.Link) {
	t.Helper()
	for _, f := range ls.Found {
		l, n, err := link.Decode(ls.Encoded[f.From:f.To])
		if err != nil || n != f.To-f.From {
			t.Fatal(n, err)
		}
		d, _ := l.Destination()
		if f.Key != l.Key().To(d) {
			t.Errorf("the key of %s %q is that of another link", l.URL, l.Ext)
		}
		all = append(all, l)
	}
	return all
}

// A link that was found lately is judged again after ForgetKnown.
func TestForgetKnown(t *testing.T) {
	f, v := follower(t, Parts{Strategy: followAll{}}, scope.Config{}), new(Attempt)
	k := keyOf("http://a.example/1")
	f.known.add(k)
	f.Follow(v, to("http://a.example/1"), k)
	before := len(v.Found)
	f.ForgetKnown()
	if f.Follow(v, to("http://a.example/1"), k); before != 0 || len(v.Found) != 1 {
		t.Errorf("%d links, then %d", before, len(v.Found))
	}
}

// With TwoLevel no link leads to a host of another agent. Of a host that has no agent yet, the root page alone goes to
// the agent that gets the host, once.
func TestTwoLevel(t *testing.T) {
	f := follower(t, Parts{Owners: owners{"b.a.example": "other", "new.a.example": "", "seen.a.example": ""}},
		scope.Config{Scope: scope.Domain})
	f.cfg.TwoLevel = true
	f.known.add(keyOf("http://seen.a.example/"))
	v := new(Attempt)
	v.Task.Link = to("http://a.example/")
	asked := map[string]bool{}
	f.owners = asking{f.owners, asked}
	for _, u := range []string{"http://a.example/1", "http://beyond.example/1", "http://b.a.example/1",
		"http://b.a.example/", "http://new.a.example/1",
		"http://new.a.example/", "http://seen.a.example/1", "http://mine.a.example/1"} {
		f.Follow(v, to(u), keyOf(u))
	}
	want := "fetched +L:a.example/1 +LI:new.a.example/* +L:new.a.example/* " +
		"+L:mine.a.example/1 -outOfScope:beyond.example/1 -otherAgent:b.a.example/1 " +
		"-otherAgent:b.a.example/ -otherAgent:new.a.example/1 -otherAgent:seen.a.example/1"
	if told(v) != want {
		t.Errorf("%s\nwant %s", told(v), want)
	}
	if asked["beyond.example"] || !asked["new.a.example"] {
		t.Errorf("agents of hosts are asked for: %v", asked)
	}
	decoded(t, &v.Links)
}

// asking notes the hosts that the owners are asked for.
type asking struct {
	Owners
	hosts map[string]bool
}

func (a asking) Owner(host string) (agent string, mine bool) {
	a.hosts[host] = true
	return a.Owners.Owner(host)
}

// keeper is a Boundary whose agent keeps the links of some hosts.
type keeper struct {
	Boundary
	host uint64
}

func (k keeper) Keeps(to link.Destination) bool { return to.Hash == k.host }

// The links of a page whose category says where they go have a destination, unless this agent follows them. They are
// known by another key.
func TestDestinations(t *testing.T) {
	f := follower(t, Parts{Strategy: followAll{}, Boundary: keeper{host: link.HostKey("a.example")}},
		scope.Config{Scope: scope.Any})
	follow := func(category uint16) *Attempt {
		v := new(Attempt)
		v.Boundary().category = category
		for _, u := range []string{"http://a.example/1", "http://b.example/1"} {
			f.Follow(v, to(u), keyOf(u))
		}
		return v
	}
	if got := told(follow(0)); got != "fetched +L:a.example/1 +L:b.example/1" {
		t.Errorf("without a category: %s", got)
	}
	v := follow(7)
	if got := told(v); got != "fetched +L:a.example/1 +L:b.example/1*" {
		t.Errorf("with a category: %s", got)
	}
	d, ok := decoded(t, &v.Links)[1].Destination()
	if want := (link.Destination{Category: 7, Hash: link.HostKey("b.example")}); !ok || d != want {
		t.Errorf("destination %v, want %v", d, want)
	}
	f.known.add(v.Found[1].Key)
	if got := told(follow(7)); got != "fetched +L:a.example/1" {
		t.Errorf("when the sent link is known: %s", got)
	}
	if got := told(follow(8)); got != "fetched +L:a.example/1 +L:b.example/1*" {
		t.Errorf("of another category: %s", got)
	}
}

// A link on the page of an application's URL belongs to the application: it has its name and root, the priority of the
// page, a key of its own, and the scope of the application alone judges it.
func TestFollowForApplications(t *testing.T) {
	site := must.Get(scope.New(scope.Config{Scope: scope.Prefix}, nil))(t)
	all := apps{"news": {Name: "news", Scope: site, Follow: true}}
	f := follower(t, Parts{Applications: all}, scope.Config{})
	page := appLink("news", "http://b.example/news/1")
	root := site.Root(page.URL)
	page.SetApp("news", root)
	page.Level, page.Hops = 5, "L"
	p := &Pool{Parts: Parts{Applications: all}}
	v := new(Attempt)
	v.Task.Link = page
	if !p.beginApp(v) {
		t.Fatal("the application is not known")
	}
	f.known.add(keyOf("http://b.example/news/known")) // a link of the crawl itself
	f.known.add(keyOf("http://b.example/news/seen").For("news"))
	urls := []string{"http://b.example/news/2", "http://a.example/1", "http://b.example/news/known",
		"http://b.example/news/seen"}
	for _, u := range urls {
		f.Follow(v, Child(page, weburl.MustParse(u), 'L'), keyOf(u))
	}
	want := "fetched +LL:b.example/news/2 +LL:b.example/news/known -outOfScope:a.example/1"
	if told(v) != want {
		t.Errorf("%s\nwant %s", told(v), want)
	}
	for _, l := range decoded(t, &v.Links) {
		if l.App() != "news" || l.Root() != root || l.Level != 5 {
			t.Errorf("%s: application %q, root %q, level %d", l.URL, l.App(), l.Root(), l.Level)
		}
	}
	// A URL that was fed leads to where its scope does not reach: there the scope begins anew.
	page.Hops = ""
	v.Reset(task(page))
	p.beginApp(v)
	f.Follow(v, Child(v.Task.Link, weburl.MustParse("http://c.example/x/y"), 'R'), keyOf("http://c.example/x/y"))
	if ls := decoded(t, &v.Links); len(ls) != 1 || ls[0].Root() != site.Root(ls[0].URL) {
		t.Errorf("after a redirect: %s, %v", told(v), ls)
	}
	delete(all, "news")
	v.Reset(task(page))
	if p.beginApp(v) {
		t.Error("a removed application still has pages")
	}
	f.Judge(&v.Links, page, page.Key())
	if told(v) != "fetched -noApplication:b.example/news/1" {
		t.Errorf("a link of a removed application: %s", told(v))
	}
}

// A link that another agent has sent is judged as one of a page, once more. It waits for an application that is not
// known here yet, and what only this agent itself can have made is no link.
func TestJudgeSent(t *testing.T) {
	f := follower(t, Parts{Owners: owners{"www.a.example": "other"}}, scope.Config{Scope: scope.Domain})
	page := to("http://a.example/stored")
	page.SetStored(link.Stored{File: "pages-1", To: 10})
	robots := to("http://a.example/robots.txt")
	robots.Hops = errandHops
	v := new(Attempt)
	for _, l := range []link.Link{to("http://a.example/1"), to("http://www.a.example/2"), to("http://c.example/3"),
		appLink("later", "http://c.example/4"), robots, {}, page} {
		f.JudgeSent(&v.Links, l)
	}
	want := "fetched +L:a.example/1 +L:www.a.example/2* +L:c.example/4 +L:a.example/stored -outOfScope:c.example/3 " +
		"-notALink:a.example/robots.txt -notALink:"
	if told(v) != want {
		t.Errorf("%s\nwant %s", told(v), want)
	}
	for _, l := range decoded(t, &v.Links) {
		if _, stored := l.Stored(); stored {
			t.Errorf("%s is stored here, says another agent", l.URL)
		}
	}
}

// With SeedRoots the first visit of an origin finds the root page. An application's visit finds none.
func TestFollowRoot(t *testing.T) {
	f := follower(t, Parts{}, scope.Config{Exclude: []string{":81/$"}})
	f.cfg.SeedRoots = true
	root := func(url string, of *Application) string {
		v := new(Attempt)
		v.Reset(task(to(url)))
		v.App().Of = of
		f.followRoot(v)
		return told(v)
	}
	for _, c := range []struct{ url, want string }{
		{"http://a.example/1", "fetched +LI:a.example/"}, {"http://a.example/", "fetched"},
		{"http://a.example:81/1", "fetched -excluded:a.example:81/"}, {"http://c.example/1", "fetched"},
	} {
		if got := root(c.url, nil); got != c.want {
			t.Errorf("%s: %s, want %s", c.url, got, c.want)
		}
	}
	if got := root("http://a.example/1", &Application{}); got != "fetched" {
		t.Errorf("of an application: %s", got)
	}
	f.known.add(keyOf("http://a.example/"))
	if got := root("http://a.example/1", nil); got != "fetched" {
		t.Errorf("a known root: %s", got)
	}
}

// A link within the host is one step deeper, and one that enters another host begins there.
func TestDepthInHost(t *testing.T) {
	v := new(Attempt)
	v.Task.Link = to("http://a.example/")
	v.Task.Link.SetHostDepth(2)
	depth := func(url string, hop byte) int { return link.Link{Ext: v.extTo(weburl.MustParse(url), hop)}.HostDepth() }
	if d := depth("http://a.example/1", 'L'); d != 0 {
		t.Errorf("without a bound: depth %d", d)
	}
	v.Page.InHost.On = true
	for _, c := range []struct {
		url  string
		hop  byte
		want int
	}{{"http://a.example/1", 'L', 3}, {"http://a.example/2", 'R', 2}, {"http://a.example/3", 'L', 3},
		{"http://b.example/", 'L', 0}} {
		if d := depth(c.url, c.hop); d != c.want {
			t.Errorf("%s by %c: depth %d, want %d", c.url, c.hop, d, c.want)
		}
	}
}

// The links of other agents are taken out, up to the first that cannot be passed on, and no own link is lost.
func TestTakeForeign(t *testing.T) {
	full := errors.New("full")
	for _, most := range []int{9, 1} {
		var ls Links
		for i, u := range []string{"http://a.example/1", "http://b.example/2", "http://a.example/3",
			"http://c.example/4"} {
			ls.Add(to(u), keyOf(u), i%2 == 1)
		}
		ls.AddOwn(keyOf("http://a.example/5"), to("http://a.example/5").AppendTo(nil))
		var foreign, own []string
		err := ls.TakeForeign(func(enc []byte) error {
			if len(foreign) == most {
				return full
			}
			l, _, err := link.Decode(enc)
			foreign = append(foreign, l.URL.Path())
			return err
		})
		ls.EachOwn(func(k link.Key, enc []byte) {
			l, _, err := link.Decode(enc)
			if own = append(own, l.URL.Path()); err != nil || k != l.Key() {
				t.Errorf("own link %s: %v", l.URL, err)
			}
		})
		if !slices.Equal(own, []string{"/1", "/3", "/5"}) {
			t.Errorf("own links %v", own)
		}
		if errors.Is(err, full) != (most == 1) || len(foreign) != min(most, 2) ||
			len(ls.Found)+len(foreign) != 5 {
			t.Errorf("%v; links of others %v, %d are left", err, foreign, len(ls.Found))
		}
		if ls.Reset(); len(ls.Found)+len(ls.Encoded)+len(ls.Skipped) != 0 {
			t.Error("there are links after Reset")
		}
	}
}
