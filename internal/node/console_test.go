package node_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/node/admin"
	"github.com/orbweaver/orbweaver/internal/node/console"
	"github.com/orbweaver/orbweaver/internal/node/operate"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testbrowser"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// A stage is a cluster as the console sees it. With evil, all texts that others choose contain it.
type stage struct {
	pb.UnimplementedOperatorHandler
	evil string
	more chan *pb.Event
	// archive is what is archived, by URL: a header, a blank line, and the body. read counts the pages that were read.
	archive map[string]string
	read    map[string]int

	mu     sync.Mutex // guards the fields below
	calls  []string   // calls that change something
	told   int        // calls that since has returned
	rate   string     // of the order that stands
	paused bool
	orders []*pb.Order
	by     string   // who has paused the crawl or saved its state last
	asked  []string // searches for hosts
}

func (s *stage) did(name string, about, why string) ([]*pb.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, strings.TrimRight(name+" "+about+" "+why, " "))
	if about == "refused.example" {
		return nil, connect.NewError(connect.CodeUnavailable, fmt.Errorf("the host is moving%s", s.evil))
	}
	return []*pb.Answer{{Agent: "a1", Text: name + " done" + s.evil}, {Agent: "a2", Error: "no answer" + s.evil}}, nil
}

func (s *stage) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := "crawling"
	if s.paused {
		state = "paused"
	}
	r := &pb.StatusResponse{Totals: &pb.Totals{Pages: 1234567, Fetched: 1300000, Bytes: 34e9, UrlsQueued: 456789,
		UrlsUnique: 2345678, PagesPerS: 123.4, OpenRequests: 48, Errors: 84}}
	r.Gone = []*pb.GoneAgent{{Agent: "a0" + s.evil, State: "stopped", Since: timestamppb.New(time.Unix(1e9, 0)),
		Why: "disk full" + s.evil, Totals: &pb.Totals{Pages: 34567, Bytes: 1e9, Errors: 7}},
		{Agent: "a9", State: "lost", Since: timestamppb.New(time.Unix(1e9, 0)), Why: "killed or unreachable"}}
	for i, name := range []string{"a1", "a2", "a3" + s.evil} {
		detail, err := structpb.NewStruct(map[string]any{
			"disk":           map[string]any{"free_bytes": 5e9 * float64(i+1), "size_bytes": 1e11},
			"errors_by_kind": map[string]any{"timeout": 30, "dns" + s.evil: 12}, "urls_sent": 1000 * i,
			"urls_received": 500,
			"categories": []any{map[string]any{"name": "science" + s.evil, "here": i == 0, "pages": 700 + i},
				map[string]any{"name": "sports", "here": i > 0, "pages": 90 * i}},
			"boundary": map[string]any{"waiting": i, "from": []any{
				map[string]any{"agent": []string{"a2", "a1", "a1"}[i], "pages": 321 * (i + 1), "bytes": 4e6}}},
		})
		if err != nil {
			return nil, err
		}
		r.Agents = append(r.Agents, &pb.AgentStatus{Agent: name, Rate: s.rateState(), State: state,
			WaitsFor: s.evil, Status: detail,
			DomainRates:  []*pb.DomainRate{{Domain: "b.example" + s.evil, Schedule: "1/s 8-9", Limit: "1/s"}},
			Applications: []*pb.NamedState{{Application: "news" + s.evil}},
			Totals: &pb.Totals{Pages: 400000 + int64(i), Bytes: 11e9, UrlsQueued: 150000, PagesPerS: 41.1,
				OpenRequests: 16, Errors: 28}})
	}
	return r, nil
}

func (s *stage) Explain(_ context.Context, q *pb.ExplainRequest) (*pb.Answers, error) {
	about := ""
	if q.Url != "" {
		about = q.Url + ": waits for its turn\n"
	}
	return &pb.Answers{Answers: []*pb.Answer{{Agent: "a1", Text: about + q.Host +
		": resting, 17 links queued\n" +
		"  next: http://" + q.Host + "/p" + s.evil + "\n  delay of 2s until 15:04:05Z, in 1.2s\n"}}}, nil
}

func (s *stage) Give(ctx context.Context, q *pb.GiveRequest) (*pb.GiveResponse, error) {
	verb := q.Verb
	if q.Off {
		verb += " off"
	}
	a, err := s.did(verb, strings.TrimSpace(q.About+" "+q.Value+q.Words), q.Why)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch q.Verb {
	case "pause":
		s.paused, s.by = !q.Off, orders.Caller(ctx)
	case "rate":
		s.rate = q.Value
	}
	return &pb.GiveResponse{Answers: a}, err
}

func (s *stage) Verbs(ctx context.Context, q *pb.VerbsRequest) (*pb.VerbsResponse, error) {
	return operate.New(nil, nil, nil).Verbs(ctx, q)
}

func (s *stage) Drop(_ context.Context, q *pb.DropRequest) (*pb.Answers, error) {
	a, err := s.did("Drop", q.Host, q.Why)
	return &pb.Answers{Answers: a}, err
}

func (s *stage) Checkpoint(ctx context.Context, q *pb.AgentRequest) (*pb.Answers, error) {
	s.mu.Lock()
	s.by = orders.Caller(ctx)
	s.mu.Unlock()
	a, err := s.did("Checkpoint", q.Agent, "")
	return &pb.Answers{Answers: a}, err
}

func (s *stage) Stop(_ context.Context, q *pb.AgentRequest) (*pb.Answers, error) {
	a, err := s.did("Stop", q.Agent, q.Why)
	return &pb.Answers{Answers: a}, err
}

func (s *stage) Leave(_ context.Context, q *pb.AgentRequest) (*pb.Answers, error) {
	a, err := s.did("Leave", q.Agent, q.Why)
	return &pb.Answers{Answers: a}, err
}

// Queue has one page of links, after an answer of an agent that still reads its queue.
func (s *stage) Queue(_ context.Context, q *pb.QueueRequest) (*pb.QueueResponse, error) {
	r := &pb.QueueResponse{Token: "second", Agents: []*pb.QueueCount{{Agent: "a1", Waiting: 7, Reading: true}}}
	if q.Token == "" {
		return r, nil
	}
	r.Token, r.Agents[0].Matched, r.Agents[0].Reading = "", 3, false
	r.Agents = append(r.Agents, &pb.QueueCount{Agent: "a2", Error: "it does not answer" + s.evil})
	for i, state := range []string{"ready", "retry", "excluded"} {
		r.Links = append(r.Links, &pb.QueuedLink{Url: fmt.Sprintf("http://www.a.example/%d%s%s", i, q.Host, s.evil),
			Agent: "a1", Depth: int32(i), State: state + s.evil, Via: "http://www.a.example/" + s.evil,
			Due: timestamppb.New(time.Unix(1e9, 0)), Why: []string{"", "", "order a1-6" + s.evil}[i]})
	}
	return r, nil
}

func (s *stage) Scope(context.Context, *pb.ScopeRequest) (*pb.ScopeResponse, error) {
	return &pb.ScopeResponse{Kind: "host" + s.evil, Seeds: []string{"http://a.example/" + s.evil}, Depth: -1,
		HostDepth: 3, Include: []string{"/news/" + s.evil}, Changes: []*pb.ScopeChange{{Order: "a1-3",
			Text: "scope include /news/" + s.evil, Why: "more" + s.evil}}}, nil
}

func (s *stage) Applications(context.Context, *pb.ApplicationsRequest) (*pb.ApplicationsResponse, error) {
	return &pb.ApplicationsResponse{Applications: []*pb.Application{{Name: "news" + s.evil, Share: 2, Scope: "host",
		Strategy: "follow", Depth: 3, Include: []string{"/x" + s.evil}, Why: "a program" + s.evil, Pages: true,
		State:  &pb.ApplicationState{Queued: 1234, Fetched: 99, Held: true},
		Agents: []*pb.ApplicationState{{Agent: "a2" + s.evil, Error: "silent" + s.evil}}}}}, nil
}

func (s *stage) TakeBack(_ context.Context, q *pb.TakeBackRequest) (*pb.GiveResponse, error) {
	a, err := s.did("TakeBack", q.Id, q.Why)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.orders = nil
	return &pb.GiveResponse{Answers: a}, err
}

func (s *stage) Orders(context.Context, *pb.OrdersRequest) (*pb.OrdersResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.orders {
		o.Text = strings.TrimSpace(o.Verb + " " + o.About)
	}
	return &pb.OrdersResponse{Orders: s.orders}, nil
}

func (s *stage) Hosts(_ context.Context, q *pb.HostsRequest) (*pb.HostsResponse, error) {
	s.mu.Lock()
	s.asked = append(s.asked, fmt.Sprint(q.By, " ", q.Search, " ", q.After))
	s.mu.Unlock()
	r := &pb.HostsResponse{Matches: 123456}
	if q.After == "" {
		r.Next = "second"
	}
	states := []string{"ready", "resting", "fetching", "paused", "blocked", "finished"}
	for i := range 30 {
		r.Hosts = append(r.Hosts, &pb.Host{Host: fmt.Sprintf("www%d%s.example%s", i, q.After, s.evil),
			State: states[i%6], Agent: fmt.Sprintf("a%d", 1+i%3), Queued: int64(9000 / (i + 1)), Pages: int64(70 * i),
			UrlsFinished: int64(80 * i), Errors: int64(i % 4), RobotsDenied: int64(i % 3), Bytes: int64(i) * 1234567,
			LatencyS: float64(i) / 20, LeastS: float64(18000 / (i + 1))})
	}
	return r, nil
}

func (s *stage) Events(ctx context.Context, q *pb.EventsRequest, stream *connect.ServerStream[pb.Event]) error {
	fields, err := structpb.NewStruct(map[string]any{"host": "www1.example" + s.evil, "until": "2026-03-04T05:07:07Z"})
	if err != nil {
		return err
	}
	for i := range int(min(q.Last, 20)) {
		if err := stream.Send(&pb.Event{Agent: "a1", Agents: []string{"a1", "a2", "a3", "a4" + s.evil},
			Event: "host-paused", Fields: fields, Text: "www1.example is paused." + s.evil,
			Time: timestamppb.New(time.Date(2026, 3, 4, 5, 6, i, 0, time.UTC))}); err != nil {
			return err
		}
	}
	for {
		select {
		case e := <-s.more:
			if err := stream.Send(e); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *stage) Log(_ context.Context, q *pb.LogRequest) (*pb.LogResponse, error) {
	r := new(pb.LogResponse)
	for i := range 25 {
		r.Lines = append(r.Lines, &pb.LogLine{Agent: "a2", Status: int32([]int{200, 200, 301, 404, -2}[i%5]),
			Size: int64(i) * 999, Mime: "text/html", TookS: 0.01 * float64(i), Url: fmt.Sprintf(
				"http://%s/%s/page-%d%s", q.Host, q.Status, i, s.evil),
			Ts: timestamppb.New(time.Date(2026, 3, 4, 5, 6, i, 0, time.UTC))})
	}
	return r, nil
}

func (s *stage) History(_ context.Context, q *pb.HistoryRequest) (*pb.HistoryResponse, error) {
	r := new(pb.HistoryResponse)
	for i, name := range []string{"a1", "a2", "a3" + s.evil} {
		h := &pb.HistorySeries{Agent: name}
		for j := range int64(100) {
			h.Hours = append(h.Hours, &pb.HistoryHour{UnixS: (492500 + j) * 3600, Pages: 10000 + 300*(j*j%37),
				Bytes: 90e6 + 3e6*(j*j%31), Errors: j % 7 * int64(i), Checkpoints: (j % 6) / 5})
		}
		if q.Hours {
			r.Agents = append(r.Agents, h)
		}
	}
	if q.Hours {
		return r, nil
	}
	for i, name := range []string{"a1", "a2", "a3" + s.evil} {
		h := &pb.HistorySeries{Agent: name}
		var pages, size int64
		for j := range int64(200) {
			pages += 1200 + 8*((j*j+int64(40*i))%97)
			size += 22000 * (1200 + 5*((j*j*7+int64(i))%131))
			h.Samples = append(h.Samples, &pb.HistorySample{UnixS: 1772600000 + 30*j, Pages: pages, Bytes: size,
				UrlsQueued: 60000 + 900*j - 3*j*j + int64(i)*9000, Errors: j * (j%7 + 1) / 3, OpenRequests: 16})
		}
		r.Agents = append(r.Agents, h)
	}
	return r, nil
}

func (s *stage) Shares(context.Context, *pb.SharesRequest) (*pb.SharesResponse, error) {
	r := &pb.SharesResponse{Partition: "ring"}
	names := []string{"a1", "a2", "a3" + s.evil}
	for _, name := range names {
		r.Agents = append(r.Agents, &pb.Share{Agent: name, Capacity: 1, Share: 1.0 / 3})
	}
	for i := range 30 {
		r.Arcs = append(r.Arcs, &pb.Arc{Agent: names[i*7%3], From: float64(i) / 30, To: float64(i+1) / 30})
	}
	return r, nil
}

// open serves the console of a stage, and opens it in a browser.
func (s *stage) open(t *testing.T) (b *testbrowser.Browser, url string) {
	t.Helper()
	b = testbrowser.Start(t)
	s.more = make(chan *pb.Event)
	server := must.Get(admin.Listen(admin.Config{Addr: "127.0.0.1:0", Token: "secret", ReaderToken: "look", Operator: s,
		Ready: func() bool { return true }, Metrics: prometheus.NewRegistry(), Console: console.Handler(),
		Settings: []admin.Setting{{Group: "Limits", Name: "page-limit" + s.evil, Value: "100" + s.evil, Default: "0"}},
		Archive:  s.pages()}))(t)
	t.Cleanup(func() { server.Close() })
	url = "http://" + server.Addr() + "/"
	b.Go(url)
	return b, url
}

// login types a token.
func login(b *testbrowser.Browser, token string) {
	b.Wait("document.activeElement.id == 'token'")
	b.Type(token)
	b.Key("Enter")
}

const shown = "document.getElementById('main').innerText"

// TestConsole walks through the console in one browser. The gate sees it in one size, the soak also as
// on a phone. Each part begins and ends without a login.
func TestConsole(t *testing.T) {
	s := hostileStage()
	b, url := s.open(t)
	s.views(t, b)
	s.actions(t, b, url)
	s.steering(t, b)
	s.reading(t, b)
	refusedLate(t, b)
}

func logout(b *testbrowser.Browser) { b.Click("#logout") }

// have sets the orders that stand.
func (s *stage) have(orders ...*pb.Order) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.orders = orders
}

// Each view shows what the crawl answers. The keys choose views, and no view is wider than a phone.
func (s *stage) views(t *testing.T, b *testbrowser.Browser) {
	standing := []*pb.Order{{Verb: "pause", Why: "our line is needed"},
		{Verb: "block", About: "*.shop.example", Why: "no content"},
		{Verb: "block", About: "192.0.2.0/24", Why: "asked by mail"},
		{Verb: "exclude", About: `/calendar/\d+`, Why: "endless"},
		{Verb: "delay", About: "slow.example", Value: "10s 8-18", Why: "a small server"}}
	for i, o := range standing {
		o.By = "alice@ws"
		o.Id, o.Agent, o.At, o.Stands = fmt.Sprint("a1-", i+3), "a1", timestamppb.New(time.Unix(1e9, 0)), true
	}
	s.have(standing...)
	picture := func(name string) {
		dir := os.Getenv("ORBWEAVER_PICTURES")
		if dir == "" {
			return
		}
		view := name[strings.LastIndexByte(name, '-')+1:]
		if slices.Contains([]string{"agents", "steer", "traffic"}, view) { // the whole view
			height := must.Get(strconv.ParseInt(b.Text("document.documentElement.scrollHeight"), 10, 64))(t)
			if strings.Contains(name, "phone") {
				b.Size(390, height, true)
			} else {
				b.Size(1280, height, false)
			}
		}
		b.Screenshot(filepath.Join(dir, name+".png"))
	}
	login(b, "wrong")
	b.Wait("document.getElementById('problem').innerText.includes('not the token')")
	b.Run("document.getElementById('token').value = ''")
	login(b, "secret")
	views := []struct{ key, name, shows string }{
		{"1", "overview", "1,234,567"}, {"2", "agents", "33.3 %"}, {"3", "hosts", "1–30 of 123,456 hosts"},
		{"4", "events", "host-paused"}, {"5", "log", "/page-24"}, {"6", "orders", "our line is needed"},
		{"7", "steer", "short.txt"}, {"8", "speed", "Now no limit holds"},
		{"9", "traffic", "in 100 hours"}, {"0", "archive", "Search"}, {"s", "settings", "page-limit"},
		{"t", "topics", "science"}, {"q", "queue", "3 of 7 links"}, {"c", "scope", "Depth within a host"},
		{"a", "apps", "pages are kept"},
	}
	b.Wait("document.getElementById('state').innerText == 'crawling'")
	sizes(b, func(phone bool) {
		b.Dark(phone)
		for _, v := range views {
			b.Key(v.key)
			b.Wait("location.hash == '#" + v.name + "' && " + shown + ".includes('" + v.shows + "')")
			b.Wait("document.querySelector('nav [aria-current]').getAttribute('href') == '#" + v.name + "'")
			if b.Text("document.documentElement.scrollWidth > innerWidth") != "false" {
				t.Errorf("phone %t: the view %s is wider than the screen", phone, v.name)
			}
			if phone {
				picture("console-phone-" + v.name)
			} else {
				picture("console-" + v.name)
			}
		}
	})
	s.reachable(t, b)
	b.Key("1")
	b.Wait("document.querySelectorAll('#curves polyline').length == 6 && " +
		"document.querySelectorAll('meter').length == 2")
	b.Key("2")
	b.Wait("document.querySelectorAll('#circle path').length == 33")
	b.Wait("document.getElementById('agents').innerText.includes('unreachable; its counts are not known') && " +
		"document.getElementById('agents').innerText.includes('34,567')")
	b.Key("q")
	b.Wait("document.querySelectorAll('#queue-links tbody tr').length == 3")
	b.Click("#queue-hosts tbody tr:nth-child(2) button")
	b.Wait("document.getElementById('queue-links').innerText.includes('/0www1.example')")

	b.Key("3")
	b.Wait("document.querySelectorAll('#hosts tbody tr').length == 30")
	b.Click("#later")
	b.Wait(shown + ".includes('www3second.example')")
	b.Click("#earlier")
	b.Wait(shown + ".includes('www3.example')")
	b.Key("/")
	b.Wait("document.activeElement.id == 'search'")
	b.Type("shop 3")
	b.Run("const s = document.getElementById('by'); s.value = 'HOST_ORDER_ERRORS'; " +
		"s.dispatchEvent(new Event('change'))")
	b.Until("the search is asked", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.asked[len(s.asked)-1] == "HOST_ORDER_ERRORS shop 3 "
	})
	b.Click("#hosts tbody button")
	b.Wait("document.getElementById('reasons').innerText.includes('delay of 2s') && " +
		"document.getElementById('visits').innerText.includes('http://www0.example//page-24')")
	b.Click("#explain-url")
	b.Type("http://www0.example/p")
	b.Click("#explain-go")
	b.Wait("document.getElementById('reasons').innerText.includes('http://www0.example/p: waits for its turn')")
	picture("console-host")

	b.Run("document.activeElement.blur(); location.hash = 'events'")
	b.Wait("document.querySelectorAll('#events li').length == 20")
	s.more <- &pb.Event{Agent: "a3", Event: "joined", Time: timestamppb.New(time.Unix(2e9, 0))}
	b.Wait("document.querySelector('#events li').innerText.includes('joined')")

	b.Run("location.hash = 'log'")
	b.Wait("document.getElementById('log-agent').options.length == 4")
	b.Run("const s = document.getElementById('log-status'); s.value = '4xx'; s.dispatchEvent(new Event('change'))")
	b.Wait(shown + ".includes('/4xx/page-3')")

	b.Key("?")
	b.Wait("document.getElementById('dialog').open")
	b.Key("Escape")
	b.Wait("!document.getElementById('dialog').open")
	logout(b)
	b.Wait("document.activeElement.id == 'token'")
	if cookies := b.Text("document.cookie"); cookies != "" {
		t.Errorf("scripts can read the cookie %s", cookies)
	}
}

// At each width, an order can be taken back without a turn of the page, an agent can be told to leave, and a view opens
// with its beginning below the header.
func (s *stage) reachable(t *testing.T, b *testbrowser.Browser) {
	for _, width := range []int64{390, 700, 1024, 1280, 1600} {
		b.Size(width, 800, width < 640)
		for _, at := range []struct{ key, view, button string }{{"6", "orders", ".take-back"},
			{"7", "steer", ".take-back"}, {"2", "agents", "#agents button:nth-child(3)"}} {
			b.Run("scrollTo(0, 300)")
			b.Key(at.key)
			b.Wait("location.hash == '#" + at.view + "' && document.querySelector('" + at.button + "') && scrollY == 0")
			top := "document.querySelector('main h2').getBoundingClientRect().top >= " +
				"document.querySelector('header').getBoundingClientRect().bottom"
			if b.Text(top) != "true" {
				t.Errorf("%d columns: %s opens under its header", width, at.view)
			}
			// The view may be drawn anew meanwhile: it is loaded every few seconds.
			b.Wait("(() => { const e = document.querySelector('" + at.button + "'); if (!e) return false; " +
				"e.scrollIntoView({ block: 'center', inline: 'nearest' }); " +
				"const r = e.getBoundingClientRect(); " +
				"return r.left >= 0 && r.right <= document.documentElement.clientWidth && " +
				"document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2) === e && " +
				"e.closest('.scroll').scrollLeft === 0 })()") // the button is in sight
		}
	}
	b.Size(1280, 800, false)
}

// Each action asks for a reason, and makes the call.
func (s *stage) actions(t *testing.T, b *testbrowser.Browser, url string) {
	s.have(&pb.Order{Id: "a1-3", Verb: "block", About: "*.example.org", Stands: true})
	login(b, "secret")
	do := func(hash, button, why, call string) {
		t.Helper()
		b.Run("location.hash = '" + hash + "'")
		b.Click(button)
		b.Wait("document.getElementById('confirm')")
		if why != "" {
			b.Wait("document.activeElement.id == 'why'")
			b.Type(why)
		}
		b.Key("Enter")
		b.Wait("document.getElementById('dialog').innerText.includes('a2: no answer')")
		b.Key("Escape")
		b.Wait("!document.getElementById('dialog').open")
		if got := s.since(); !slices.Equal(got, []string{call}) {
			t.Errorf("%s %s: calls %q, want %q", hash, button, got, call)
		}
	}
	by := func(want string) {
		t.Helper()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.by != want {
			t.Errorf("by %q, want %q", s.by, want)
		}
	}
	do("overview", "#pause", "our line", "pause  our line")
	by("console")
	b.Wait("document.getElementById('state').innerText == 'paused' && " +
		"document.getElementById('pause').innerText == 'Resume'")
	do("overview", "#pause", "", "pause off")
	do("overview", "#checkpoint", "", "Checkpoint")
	b.Click("#checkpoint")
	b.Wait("document.getElementById('confirm')")
	b.Run("document.getElementById('by').value = ' J\\u00fcrgen B '")
	b.Click("#confirm")
	b.Wait("document.getElementById('dialog').innerText.includes('a2: no answer')")
	b.Key("Escape")
	b.Wait("!document.getElementById('dialog').open")
	by("Jürgen B")
	s.since()
	do("overview", "#stop", "enough", "Stop  enough")
	do("agents", "#agents tbody tr:nth-child(2) button.danger", "x", "Stop a2 x")
	do("agents", "#agents tbody tr:nth-child(2) button", "", "Checkpoint a2")
	do("agents", "#agents tbody tr:nth-child(2) button:nth-child(3)", "to repair it", "Leave a2 to repair it")
	do("scope", ".take-back", "enough", "TakeBack a1-3 enough")
	s.have(&pb.Order{Id: "a1-3", Verb: "block", About: "*.example.org", Stands: true})
	do("apps", ".take-back", "sold", "app off news"+s.evil+" sold")
	do("hosts/www.a.example", "#block", "a complaint", "block www.a.example a complaint")
	do("hosts/www.a.example", "#unblock", "", "block off www.a.example")
	do("hosts/www.a.example", "#drop", "trap", "Drop www.a.example trap")
	b.Run("location.hash = 'speed'")
	b.Wait("document.getElementById('rate-text').value == 'none'") // the console has drawn the week
	b.Run("document.getElementById('rate-text').value = '7/s 0-6, else 9/s'")
	do("speed", "#rate-apply", "quiet", "rate 7/s 0-6, else 9/s quiet")
	do("orders", ".take-back", "over", "TakeBack a1-3 over")
	b.Wait(shown + ".includes('No order stands')")

	b.Run("location.hash = 'hosts/refused.example'")
	b.Click("#block")
	b.Click("#confirm")
	b.Wait("document.getElementById('dialog').innerText.includes('the host is moving')")

	b.Go(url + "?again") // the cookie lasts
	b.Wait("!document.getElementById('account').hidden")
	logout(b)
	login(b, "look")
	b.Wait("document.getElementById('role').innerText.startsWith('reader')")
	for _, hash := range []string{"overview", "agents", "hosts/www.a.example", "orders", "steer", "speed", "scope",
		"queue", "apps"} {
		b.Run("location.hash = '" + hash + "'")
		view, _, _ := strings.Cut(hash, "/")
		b.Wait("document.querySelector('nav [aria-current]').getAttribute('href') == '#" + view + "' && " + shown +
			".length > 40")
		if n := b.Text("document.querySelectorAll('main .actions button:enabled, .take-back').length"); n != "0" {
			t.Errorf("%s: a reader has %s buttons", hash, n)
		}
	}
	logout(b)
}

// Texts that servers and other agents choose stay text. The page contacts its own server alone.
func TestConsoleAttack(t *testing.T) {
	testtier.OnlySoak(t, "a browser takes long")
	const evil = `"'><img src=http://evil.invalid/x onerror="window.hacked=1"><script>window.hacked=2</script>` +
		`<a href="javascript:window.hacked=3">x</a>`
	s := &stage{evil: evil, archive: map[string]string{"http://a.example/" + evil: ""}, orders: []*pb.Order{
		{Id: "1" + evil, Agent: evil, By: evil, Why: evil, Verb: evil, About: evil, Value: evil, Stands: true},
		{Id: "2", Verb: "block", About: evil, Stands: true}}}
	b, url := s.open(t)
	login(b, "secret")
	b.Wait("document.querySelector('#tiles .tile')")
	safe := func(where string) {
		t.Helper()
		got := b.Text("[window.hacked, document.querySelectorAll('main img, main script, main a[href^=javascript], " +
			"#dialog img, #dialog script, iframe:not(#page), style').length, [...document.querySelectorAll('main *')]" +
			".filter(e => e.getAttributeNames().some(n => n.startsWith('on'))).length]")
		if got != ",0,0" {
			t.Errorf("%s: %s", where, got)
		}
	}
	for _, hash := range []string{"overview", "agents", "hosts", "events", "log", "orders", "steer", "settings",
		"topics", `hosts/%22%3E%3Cimg src=x onerror=window.hacked=4%3E`} {
		b.Run("location.hash = '" + hash + "'")
		if hash == "overview" {
			b.Wait("document.querySelectorAll('#curves polyline').length == 6")
		} else {
			b.Wait(shown + ".includes('onerror=')")
		}
		safe(hash)
	}
	b.Click("#block")
	b.Click("#confirm")
	b.Wait("document.getElementById('dialog').innerText.includes('onerror=')")
	safe("the answer to an action")
	b.Key("Escape")
	b.Run("location.hash = 'archive/http'")
	b.Click("#captures tbody button")
	b.Wait("document.getElementById('record').innerText.includes('onerror=')")
	safe("a record")
	// What a hole in the page could try, the policy forbids.
	for _, script := range []string{"document.body.innerHTML = '<b>x</b>'",
		"document.body.append(document.createRange().createContextualFragment('<script>window.hacked=5</script>'))",
		"setTimeout('window.hacked=6')"} {
		if got := b.Text("(() => { try { " + strings.ReplaceAll(script, "</script>", `<\/script>`) +
			"; return 'done' } catch { return 'refused' } })()"); got != "refused" {
			t.Errorf("%s: %s", script, got)
		}
	}
	b.Run("document.addEventListener('securitypolicyviolation', (e) => { window.forbidden = e.blockedURI })")
	b.Run("fetch('http://evil.invalid/', {mode: 'no-cors'}).catch(() => {})")
	b.Wait("window.forbidden == 'http://evil.invalid/'")
	safe("the policy")
	own := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/")
	for _, c := range b.Contacts() { // the browser itself looks up names of its maker
		if strings.HasPrefix(c, "tcp ") && c != "tcp "+own || strings.Contains(c, "evil") {
			t.Errorf("the browser contacts %s", c)
		}
	}
}

func newRecorder(h http.Handler, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", "http://localhost/", nil)
	r.URL.Path = path
	return newRecorderOf(h, r)
}

func newRecorderOf(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Another site cannot frame the console, nor make it send the cookie.
func TestConsoleHeaders(t *testing.T) {
	h := console.Handler()
	for path, kind := range map[string]string{"/": "text/html", "/console/main.js": "javascript",
		"/console/style.css": "text/css", "/console/icon.svg": "image/svg"} {
		w := newRecorder(h, path)
		if w.Code != http.StatusOK || !strings.Contains(w.Header().Get("Content-Type"), kind) ||
			!strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'; script-src 'self';") ||
			!strings.Contains(w.Header().Get("Content-Security-Policy"), "frame-ancestors 'none'") ||
			w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d, %v", path, w.Code, w.Header())
		}
	}
	for _, path := range []string{"/console/", "/console/none.js", "/console/../console.go", "/console//"} {
		if w := newRecorder(h, path); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}
