package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/cluster/termination"
	"github.com/orbweaver/orbweaver/internal/node/membership"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A stranger has no keys, or keys of another authority. It can neither join agents that crawl, nor
// ask them, nor send them a URL. The agents refuse it, count it, and continue.
func TestClusterStrangers(t *testing.T) {
	weighs(t, 3)
	const delay = 20 * time.Millisecond
	made := must.Get(gen.New(gen.Plain(21, 12)))(t)
	truth := must.Get(made.Reachable(gen.Bounds{Seeds: []gen.Seed{{}}, Robots: true}))(t)
	web := serve(t, testweb.Config{Origin: made, Truth: truth, Promise: testweb.Promise{HostDelay: delay},
		Sites: []testweb.Site{{
			Host:    "pushed.example",
			Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "no") }),
		}}})
	dir := t.TempDir()
	ours, theirs := filepath.Join(dir, "keys"), filepath.Join(dir, "other-keys")
	for _, k := range []string{ours, theirs} {
		crawl(context.Background(), t, "cluster", "keys", "--out", k, "--agents", "a1,a2,a3").must(t, 0)
	}
	ps, homes := together(t, web, 2, func(i int) []string {
		return []string{"--keys", filepath.Join(ours, fmt.Sprint("a", i+1)), made.URL(0, 0)}
	}, "--scope", "any", "--delay", delay.String(), "--ip-delay", "0", "--site-delay", "0", "--api", "127.0.0.1:0")
	home := homes[0]
	for began := time.Now(); web.Report().Pages < 10; time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("the agents do not crawl:\n%s\n%s", tail(ps[0].out.String()), events(t, home))
		}
	}
	before, addr := refused(t, home), eventsOf(t, home, "joined")[0]["address"].(string)

	// The agent has keys of another authority, under a free name.
	alien := start(t, flags(t, web, filepath.Join(dir, "alien"), "--quiet", "--scope", "any",
		"--name", "a3", "--listen", port(t), "--join", addr, "--keys", filepath.Join(theirs, "a3"),
		"https://pushed.example/")...)

	link := link.Link{URL: weburl.MustParse("http://pushed.example/")}.AppendTo(nil)
	for what, keys := range map[string]*rpc.Keys{"no keys": nil,
		"another authority's keys": loadKeys(t, filepath.Join(theirs, "a2"))} {
		me := rpc.Caller{Name: "a2", Instance: rpc.ID{7}, Boot: 9, Crawl: crawlID(t, home)} // even if it knows the port
		c := rpc.NewClient(rpc.ClientConfig{Keys: keys, Self: func() rpc.Caller { return me }})
		p := c.Peer("a1", addr)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		hello := &pb.HelloRequest{Agent: &pb.Agent{Name: me.Name, Instance: me.Instance[:], Boot: me.Boot, Capacity: 1,
			Address: "127.0.0.1:1"}}
		if w, err := membership.HelloCall.Ask(ctx, p, hello); err == nil {
			t.Errorf("%s: welcome %+v", what, w)
		}
		if v, err := termination.PulseCall.Ask(ctx, p, new(pb.PulseRequest)); err == nil {
			t.Errorf("%s: pulse %+v", what, v)
		}
		if _, err := cluster.PushCall.Ask(ctx, p, &pb.PushRequest{Count: 1, Links: link}); err == nil {
			t.Errorf("%s: a link was taken", what)
		}
		if _, err := termination.EndCall.Ask(ctx, p, &pb.EndRequest{Reason: "finished"}); err == nil {
			t.Errorf("%s: the crawl was ended", what)
		}
		cancel()
		c.Close()
	}
	if !ended(alien, time.Minute) {
		t.Fatalf("an agent with another authority's keys does not end:\n%s", tail(alien.out.String()))
	}
	if code := alien.code(); code != 4 {
		t.Errorf("exit code %d of an agent with another authority's keys, want 4:\n%s", code, tail(alien.out.String()))
	}
	if now := refused(t, home); now["stranger"] < before["stranger"]+5 {
		t.Errorf("refused %v, before it was %v", now, before)
	} else {
		t.Logf("refused %v", now)
	}

	finished(t, ps, homes)
	noViolations(t, web)
	if r := web.Report(); r.Hosts["pushed.example"].Requests > 0 || r.Origin.Missed > 0 || r.Origin.Twice > 0 {
		t.Errorf("%d requests for what a stranger gave, %d pages missed, %d twice", r.Hosts["pushed.example"].Requests,
			r.Origin.Missed, r.Origin.Twice)
	}
}

func loadKeys(t *testing.T, dir string) *rpc.Keys {
	t.Helper()
	k := must.Get(rpc.LoadKeys(disk.OS, dir, nil))(t)
	return k
}

// crawlID returns the crawl's id of an agent's cluster.
func crawlID(t *testing.T, dir string) rpc.ID {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "state", "agent.json"))
	var who struct{ Crawl string }
	if err == nil {
		err = json.Unmarshal(b, &who)
	}
	must.Do(t, err)
	id := must.Get(rpc.ParseID(who.Crawl))(t)
	return id
}

var refusedLine = regexp.MustCompile(`(?m)^orbweaver_exchange_refused_total\{reason="([a-z-]+)"\} ([0-9.e+]+)$`)

// metrics returns what a running agent with --api says to Prometheus.
func metrics(t *testing.T, dir string) string {
	t.Helper()
	api := apiOf(t, dir)
	req := must.Get(http.NewRequest("GET", "http://"+api.Addr+"/metrics", nil))(t)
	req.Header.Set("Authorization", "Bearer "+api.Token)
	res := must.Get(http.DefaultClient.Do(req))(t)
	defer res.Body.Close()
	text := must.Get(io.ReadAll(res.Body))(t)
	return string(text)
}

// refused returns the calls that a running agent has refused, by its metrics.
func refused(t *testing.T, dir string) map[string]float64 {
	t.Helper()
	text, counts := metrics(t, dir), map[string]float64{}
	for _, m := range refusedLine.FindAllStringSubmatch(text, -1) {
		var err error
		if counts[m[1]], err = strconv.ParseFloat(m[2], 64); err != nil {
			t.Fatal(err)
		}
	}
	if len(counts) == 0 {
		t.Fatalf("nothing is said of refusals:\n%s", tail(text))
	}
	return counts
}
