package rpc

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// FuzzCaller: a decoded caller is encoded to the same text.
func FuzzCaller(f *testing.F) {
	f.Add(caller("a1").header())
	f.Add("")
	f.Add("a1 " + theCrawl.String() + " 18446744073709551616 " + theCrawl.String())
	f.Add("a1  00 0 00")
	f.Fuzz(func(t *testing.T, s string) {
		c, err := parseCaller(s)
		if err != nil {
			return
		}
		if CheckName(c.Name) != nil {
			t.Fatalf("%q: name %q", s, c.Name)
		}
		if again, err := parseCaller(c.header()); err != nil || again != c {
			t.Fatalf("%q is %+v, which is %+v, %v", s, c, again, err)
		}
	})
}

// FuzzMessages: any message is refused or within its bounds.
func FuzzMessages(f *testing.F) {
	add := func(kind byte, m proto.Message) {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(kind, b)
	}
	a := Agent{Name: "a1", Instance: ID{1}, Boot: 1, Capacity: 1, Addr: "127.0.0.1:1"}
	add(0, helloToWire(Hello{Agent: a, Settings: map[string]string{"k": "v"}}))
	add(1, welcomeToWire(Welcome{Agent: a, Crawl: theCrawl, Elapsed: time.Hour, Agents: []Agent{a}}))
	add(2, linksToWire(links("http://a.example/", "https://b.example/x?y")))
	add(3, recordsToWire(Records{Seq: 1, Count: 1, Data: []byte("x")}))
	add(4, &pb.ClaimRequest{Hosts: []string{"a.example"}})
	add(5, verdictsToWire([]Verdict{Unknown, Again}))
	add(6, &pb.HandRequest{Count: 1, Records: []byte("x")})
	add(7, &pb.EndRequest{Reason: "finished"})
	add(8, &pb.BudgetResponse{Held: 13, Known: map[string]uint64{"a1": 13}})
	add(9, &pb.BudgetRequest{Seq: 1, Used: 2, Held: 3, Want: 4, Known: map[string]uint64{"a1": 3}})
	page := ContentPage{URL: "http://a.example/", Date: time.UnixMilli(1700000000123)}
	add(10, contentsToWire([]Content{{Digest: [20]byte{1}, Page: page},
		{Digest: [20]byte{2}, Page: page, Archived: true}}))
	add(11, contentAnswersToWire([]ContentAnswer{{First: page}, {Claimed: true}}))
	add(12, fingerprintsToWire([]Fingerprint{1, 1<<48 - 1}))
	add(13, knownBitsToWire([]bool{true, false, true}))
	two := links("http://a.example/", "http://b.example/")
	add(14, recallToWire(Recall{Links: two, Accept: true}))
	known := RecallAnswer{RecallKnown, links("http://a.example/").Data, []byte("state")}
	add(15, recallAnswersToWire([]RecallAnswer{known, {Verdict: RecallNone}}))
	few := [][]byte{[]byte("pause"), {0}}
	add(16, ordersToWire(Orders{few, [32]byte{1}}))
	add(17, ordersAnswerToWire(OrdersAnswer{few, [32]byte{1}, true}))
	add(18, &pb.OperateRequest{Method: "Pause", Request: []byte("x")})
	add(19, operationAnswerToWire(OperationAnswer{[]byte("x"), "no such host", "not-found"}))
	add(20, shareAskToWire(ShareAsk{Seq: 1, Held: 0.5, Left: time.Second, Want: 1}))
	add(21, shareGrantToWire(ShareGrant{Share: 0.5, Agents: 2, Requests: 10, Bits: 1e6}))
	file := CopyFile{"a-1.warc.gz", 100, [32]byte{1}}
	add(22, copyToWire(Copy{Kind: CopyPart, File: file, Offset: 90, Data: []byte("x")}))
	add(22, copyToWire(Copy{Kind: CopyPages, Agent: "a1", Instance: ID{1}, Pages: []weburl.Key{{Host: 1, Path: 2}}}))
	add(23, copyAnswerToWire(CopyAnswer{Files: []CopyFile{file}, Have: 3, Known: []bool{true, false}}))
	f.Fuzz(func(t *testing.T, kind byte, b []byte) {
		read := func(m proto.Message) bool { return proto.Unmarshal(b, m) == nil }
		agent := func(a Agent) {
			if CheckName(a.Name) != nil || !(a.Capacity > 0) || a.Capacity > maxCapacity || len(a.Addr) > maxAddress {
				t.Fatalf("agent %+v", a)
			}
		}
		counted := func(l Links) {
			n := 0
			for rest := l.Data; len(rest) > 0; n++ {
				link, used, err := weburl.DecodeLink(rest)
				if err != nil || link.URL.Host() == "" {
					t.Fatalf("link %d: %v", n, err)
				}
				rest = rest[used:]
			}
			if n != l.Count || n == 0 {
				t.Fatalf("%d links, said %d", n, l.Count)
			}
		}
		switch kind % 20 {
		case 0:
			var w pb.HelloRequest
			if !read(&w) {
				return
			}
			if h, err := helloFromWire(&w); err == nil {
				agent(h.Agent)
				h.Differ(map[string]string{"partition": "rendezvous"})
			}
		case 1:
			var w pb.HelloResponse
			if !read(&w) {
				return
			}
			if v, err := welcomeFromWire(&w); err == nil {
				agent(v.Agent)
				if v.Elapsed < 0 {
					t.Fatalf("elapsed %v", v.Elapsed)
				}
				for _, a := range v.Agents {
					agent(a)
				}
			}
		case 2:
			var w pb.PushRequest
			if !read(&w) {
				return
			}
			if l, err := linksFromWire(&w); err == nil {
				counted(l)
				if l.Hops < 0 || l.Hops > MaxHops {
					t.Fatalf("%d hops", l.Hops)
				}
			}
		case 3:
			var w pb.ShipRequest
			if !read(&w) {
				return
			}
			if r, err := recordsFromWire(&w); err == nil && (r.Count <= 0 || r.Count > len(r.Data)) {
				t.Fatalf("%d records in %d octets", r.Count, len(r.Data))
			}
		case 4:
			var w pb.ClaimRequest
			if !read(&w) {
				return
			}
			if checkHosts(w.Hosts) == nil {
				for _, h := range w.Hosts {
					if u, err := weburl.Parse("http://" + h + "/"); err != nil || u.String() != "http://"+h+"/" {
						t.Fatalf("host %q", h)
					}
				}
			}
		case 5:
			var w pb.ClaimResponse
			if !read(&w) {
				return
			}
			if vs, err := verdictsFromWire(&w, 2); err == nil && len(vs) != 2 {
				t.Fatalf("%v", vs)
			}
		case 6:
			var w pb.HandRequest
			if !read(&w) {
				return
			}
			if r, err := handedFromWire(&w); err == nil && (r.Count < 1 || r.Count > len(r.Data)) {
				t.Fatalf("%d records in %d octets", r.Count, len(r.Data))
			}
		case 7:
			var w pb.EndRequest
			if read(&w) {
				if e, err := endFromWire(&w); err == nil && len(e.Reason) > maxReason {
					t.Fatalf("reason of %d octets", len(e.Reason))
				}
			}
		case 8:
			var w pb.BudgetResponse
			if read(&w) {
				if g, err := grantFromWire(&w, Budget{Held: 10, Want: 5}); err == nil && (g.Held < 10 || g.Held > 15) {
					t.Fatalf("%d pages", g.Held)
				}
			}
		case 9:
			var w pb.BudgetRequest
			if read(&w) {
				if b, err := budgetFromWire(&w); err == nil &&
					(b.Used < 0 || b.Used > b.Held || b.Held > maxPages || b.Want < 0 || b.Want > maxWant) {
					t.Fatalf("%+v", b)
				}
			}
		case 10:
			var w pb.ContentsRequest
			if !read(&w) {
				return
			}
			cs, err := contentsFromWire(&w)
			if err != nil {
				return
			}
			if len(cs) == 0 || len(cs) > MaxContents {
				t.Fatalf("%d contents", len(cs))
			}
			for _, c := range cs {
				contentPage(t, c.Page)
			}
			if again, err := contentsFromWire(contentsToWire(cs)); err != nil || !slices.Equal(again, cs) {
				t.Fatalf("%+v is %+v, %v", cs, again, err)
			}
		case 12:
			var w pb.KnownRequest
			if !read(&w) {
				return
			}
			if fs, err := fingerprintsFromWire(&w); err == nil && (len(fs) == 0 || len(fs) > MaxKnown ||
				!bytes.Equal(fingerprintsToWire(fs).Fingerprints, w.Fingerprints)) {
				t.Fatalf("fingerprints %x", w.Fingerprints)
			}
		case 13:
			var w pb.KnownResponse
			if !read(&w) {
				return
			}
			known, err := knownBitsFromWire(&w, 3)
			if err == nil && !bytes.Equal(knownBitsToWire(known).Known, w.Known) {
				t.Fatalf("known %x", w.Known)
			}
		case 22:
			var w pb.CopyRequest
			if !read(&w) {
				return
			}
			c, err := copyFromWire(&w)
			if err == nil && (len(c.Data) > MaxPart || len(c.Pages) > MaxPages || c.Offset < 0 ||
				c.Offset+int64(len(c.Data)) > c.File.Size) {
				t.Fatalf("copy %v", c)
			}
		case 23:
			var w pb.CopyResponse
			if !read(&w) {
				return
			}
			if a, err := copyAnswerFromWire(&w, 2); err == nil && (len(a.Files) > MaxFiles || len(a.Known) != 2) {
				t.Fatalf("answer %v", a)
			}
		case 14:
			var w pb.RecallRequest
			if !read(&w) {
				return
			}
			if r, err := recallFromWire(&w); err == nil {
				if counted(r.Links); r.Links.Count > MaxRecall {
					t.Fatalf("%d links", r.Links.Count)
				}
			}
		case 15:
			var w pb.RecallResponse
			if !read(&w) {
				return
			}
			as, err := recallAnswersFromWire(&w, two)
			if err != nil {
				return
			}
			for i, a := range as {
				if a.Verdict != RecallKnown {
					continue
				}
				l, _, err := weburl.DecodeLink(a.Link)
				want := []string{"http://a.example/", "http://b.example/"}[i]
				if err != nil || l.URL.String() != want || len(a.State) == 0 || len(a.State) > MaxState {
					t.Fatalf("link %v, %d octets of state, %v", l, len(a.State), err)
				}
			}
		case 16:
			var w pb.OrdersRequest
			if read(&w) {
				if o, err := ordersFromWire(&w); err == nil {
					someOrders(t, o.Orders)
				}
			}
		case 17:
			var w pb.OrdersResponse
			if read(&w) {
				if a, err := ordersAnswerFromWire(&w); err == nil {
					someOrders(t, a.Orders)
				}
			}
		case 18:
			var w pb.OperateRequest
			if !read(&w) {
				return
			}
			if o, err := operationFromWire(&w); err == nil &&
				(!regexp.MustCompile(`^[A-Za-z]{1,64}$`).MatchString(o.Method) || len(o.Request) > MaxData) {
				t.Fatalf("method %q, %d octets", o.Method, len(o.Request))
			}
		case 19:
			var w pb.OperateResponse
			if !read(&w) {
				return
			}
			if a, err := operationAnswerFromWire(&w); err == nil &&
				(len(a.Response) > MaxData || len(a.Error) > maxProblem || len(a.Code) > maxCode) {
				t.Fatalf("%d, %d and %d octets", len(a.Response), len(a.Error), len(a.Code))
			}
		case 20:
			var w pb.ShareRequest
			if !read(&w) {
				return
			}
			if a, err := shareAskFromWire(&w); err == nil &&
				(!(a.Held >= 0 && a.Held <= 1 && a.Want >= 0 && a.Want <= 1) || a.Left < 0 || a.Left > time.Minute) {
				t.Fatalf("%+v", a)
			}
		case 21:
			var w pb.ShareResponse
			if !read(&w) {
				return
			}
			if g, err := shareGrantFromWire(&w); err == nil &&
				(!(g.Share >= 0 && g.Share <= 1 && g.Requests >= 0 && g.Bits >= 0) || g.Agents < 1) {
				t.Fatalf("%+v", g)
			}
		case 11:
			var w pb.ContentsResponse
			if !read(&w) {
				return
			}
			as, err := contentAnswersFromWire(&w, 2)
			if err != nil {
				return
			}
			for _, a := range as {
				if a.First != (ContentPage{}) {
					contentPage(t, a.First)
				}
			}
			if again, err := contentAnswersFromWire(contentAnswersToWire(as), 2); err != nil ||
				!slices.Equal(again, as) {
				t.Fatalf("%+v is %+v, %v", as, again, err)
			}
		}
	})
}

// contentPage checks that an accepted page is within its bounds.
func contentPage(t *testing.T, p ContentPage) {
	u, err := weburl.Parse(p.URL)
	if err != nil || u.String() != p.URL || len(p.URL) > MaxContentURL || p.Date.UnixMilli() < 0 ||
		p.Date.Year() > 9999 {
		t.Fatalf("page %q at %v: %v", p.URL, p.Date, err)
	}
}

// someOrders checks that accepted orders are within their bounds.
func someOrders(t *testing.T, orders [][]byte) {
	size := 0
	for _, o := range orders {
		if size += len(o); len(o) == 0 || len(o) > MaxOrder {
			t.Fatalf("an order of %d octets", len(o))
		}
	}
	if len(orders) > MaxOrders || size > MaxData {
		t.Fatalf("%d orders of %d octets", len(orders), size)
	}
}

func TestBackoff(t *testing.T) {
	for _, c := range []struct {
		failures int
		chance   float64
		want     time.Duration
	}{
		{0, 0.5, 0},
		{1, 0, 50 * time.Millisecond},
		{1, 1, 100 * time.Millisecond},
		{4, 0, 400 * time.Millisecond},
		{7, 1, 5 * time.Second},
		{1 << 40, 1, 5 * time.Second},
		{1 << 40, 0, 2500 * time.Millisecond},
	} {
		if got := backoff(c.failures, backoffMost, c.chance); got != c.want {
			t.Errorf("backoff(%d, %v) = %v, want %v", c.failures, c.chance, got, c.want)
		}
	}
}

// TestLane: no call begins in a pause, at most the limit of calls run, and pauses follow the rule.
func TestLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seed := testseed.New(t)
		l := newLane(1, backoffMost, seed)
		for failures := 1; failures < 12; failures++ {
			if err := l.enter(t.Context()); err != nil {
				t.Fatal(err)
			}
			before := time.Now()
			l.leave(false, false)
			if err := l.enter(t.Context()); err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(before); waited < backoff(failures, backoffMost, 0) ||
				waited > backoff(failures, backoffMost, 1) {
				t.Errorf("after %d failures it waited %v", failures, waited)
			}
			l.leave(false, true) // its caller cancelled it: no failure
		}
		if err := l.enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		// The only slot is taken.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.enter(ctx); err != context.DeadlineExceeded {
			t.Errorf("entered a full lane: %v", err)
		}
		l.leave(false, false)
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.enter(ctx); err != context.DeadlineExceeded {
			t.Errorf("entered in a pause: %v", err)
		}
		if err := l.enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.leave(true, false)
		before := time.Now()
		if err := l.enter(t.Context()); err != nil || time.Since(before) != 0 {
			t.Errorf("waited %v after a success: %v", time.Since(before), err)
		}
		l.leave(true, false)
	})
}

func TestNames(t *testing.T) {
	for _, name := range []string{"a", "a1", "crawler-1", "crawler-1.example.org", "0"} {
		if err := CheckName(name); err != nil {
			t.Errorf("%v", err)
		}
	}
	for _, name := range []string{"", "A1", "-a", "a-", ".", "..", "a/b", "a b", "ä", "a\n", fmt.Sprintf("%064d", 0)} {
		if CheckName(name) == nil {
			t.Errorf("%q is a name", name)
		}
	}
}
