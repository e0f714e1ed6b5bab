package node_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/orbweaver/orbweaver/internal/node/operate"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/testkit/testbrowser"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// rateState returns the rate that holds. The caller holds mu.
func (s *stage) rateState() *pb.RateState {
	if s.rate == "" {
		return nil
	}
	return &pb.RateState{Schedule: s.rate, Limit: "40/s", Share: 0.5}
}

func (s *stage) AddSeeds(_ context.Context, q *pb.AddSeedsRequest) (*pb.AddSeedsResponse, error) {
	_, err := s.did("AddSeeds", strings.Join(q.Urls, " "), q.Why)
	r := &pb.AddSeedsResponse{Orders: []string{"a1-9"}, Told: []*pb.Answer{{Agent: "a2", Error: "no answer" + s.evil}}}
	for i, u := range q.Urls {
		seed := &pb.Seed{Url: u + s.evil, Result: []string{"new", "known", "refused"}[i%3], Agent: "a1"}
		if seed.Result == "refused" {
			seed.Agent, seed.Text = "", "not a URL of the web"+s.evil
		}
		r.Seeds = append(r.Seeds, seed)
	}
	return r, err
}

func (s *stage) ExcludePreview(_ context.Context, q *pb.ExcludePreviewRequest) (*pb.ExcludePreviewResponse, error) {
	if strings.HasPrefix(q.Pattern, "(") {
		return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("missing closing )"))
	}
	if q.Token == "" { // the agent has not read all of its queue
		return &pb.ExcludePreviewResponse{Token: "on", Agents: []*pb.QueueCount{{Agent: "a1", Waiting: 5,
			Reading: true}}}, nil
	}
	return &pb.ExcludePreviewResponse{Agents: []*pb.QueueCount{{Agent: "a1", Waiting: 5000, Matched: 1234,
		Examples: []string{"http://www.example/calendar/2031" + s.evil}}, {Agent: "a2", Error: "no answer"}}}, nil
}

func (s *stage) Blacklists(_ context.Context, q *pb.BlacklistsRequest) (*pb.BlacklistsResponse, error) {
	r := &pb.BlacklistsResponse{Silent: []*pb.Answer{{Agent: "a4", Error: "no answer" + s.evil}}}
	for i, name := range []string{"a1", "a2", "a3" + s.evil} {
		b := &pb.Blacklist{Agent: name, File: "/etc/orbweaver/blacklist.txt" + s.evil, Entries: 1234, Matches: 1200}
		if i == 2 {
			b.File, b.Entries, b.Matches = "short.txt", 1, 1
		}
		if q.Search != "" {
			b.Matches = 1
		}
		for j := range min(b.Matches, 3) {
			b.List = append(b.List, &pb.BlacklistEntry{About: fmt.Sprintf("*.ads%d.example%s", j, q.Search+s.evil),
				Why: fmt.Sprintf("blacklist %s, line %d", b.File, 10+j)})
		}
		r.Agents = append(r.Agents, b)
	}
	return r, nil
}

func (s *stage) RateWeek(ctx context.Context, q *pb.RateWeekRequest) (*pb.RateWeekResponse, error) {
	return operate.New(nil, nil, nil).RateWeek(ctx, q)
}

// since returns the calls that change something since the last time.
func (s *stage) since() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := slices.Clone(s.calls[s.told:])
	s.told = len(s.calls)
	return calls
}

// sizes calls fn with the console in the size of a screen, and in the soak also of a phone.
func sizes(b *testbrowser.Browser, fn func(phone bool)) {
	fn(false)
	if testtier.Soak() {
		b.Size(390, 844, true)
		fn(true)
		b.Size(1280, 800, false)
	}
}

// confirm gives a reason in the dialog.
func confirm(b *testbrowser.Browser, why string) {
	b.Wait("document.activeElement.id == 'why'")
	b.Type(why)
	b.Key("Enter")
}

const text = "document.getElementById('%s').innerText.includes('%s')"

// choose chooses the verb of the form.
func choose(b *testbrowser.Browser, verb string) {
	b.Run("document.getElementById('kind').value = '" + verb + "'")
	b.Run("document.getElementById('kind').dispatchEvent(new Event('change'))")
}

// Several seeds, blocks and patterns are given at once, and each line has its answer.
func (s *stage) steering(t *testing.T, b *testbrowser.Browser) {
	s.have(&pb.Order{Id: "a1-3", Verb: "exclude", About: "/trap/", Why: "endless", Stands: true},
		&pb.Order{Id: "a1-4", Verb: "delay", About: "slow.example", Value: "10s", Stands: true})
	login(b, "secret")
	s.since()
	did := func(want ...string) {
		t.Helper()
		if got := s.since(); !slices.Equal(got, want) {
			t.Errorf("calls %q, want %q", got, want)
		}
	}
	lines := func(id string, all ...string) {
		b.Run(fmt.Sprintf("document.getElementById('%s').value = %q", id, strings.Join(all, "\n")))
	}
	sizes(b, func(phone bool) {
		b.Run("location.hash = 'overview'")
		b.Run("location.hash = 'steer'")
		b.Wait("document.querySelectorAll('#kind option').length >= 5 && " +
			fmt.Sprintf(text, "about", "No more requests go there") + " && " +
			fmt.Sprintf(text, "standing", "No such order"))
		lines("seeds", "http://a.example/ # the library", "", "# none", "http://b.example/", "mailto:x")
		b.Click("#add-seeds")
		confirm(b, "asked")
		b.Wait("document.querySelectorAll('#seed-answers tbody tr').length == 3 && " +
			fmt.Sprintf(text, "seed-answers", "not a URL of the web") + " && " +
			fmt.Sprintf(text, "seed-answers", "1 new, 1 known, 1 refused") + " && " +
			fmt.Sprintf(text, "seed-answers", "a2 has not got it yet"))
		did("AddSeeds http://a.example/ http://b.example/ mailto:x asked")
		lines("seeds")
		b.Click("#add-seeds")
		b.Wait(fmt.Sprintf(text, "seed-answers", "these are 0"))

		lines("lines", "www.a.example", "*.b.example", "192.0.2.0/24", "refused.example")
		b.Click("#give")
		confirm(b, "abuse")
		b.Wait("document.querySelectorAll('#give-answers tbody tr').length == 4 && " +
			fmt.Sprintf(text, "give-answers", "the host is moving"))
		did("block www.a.example abuse", "block *.b.example abuse", "block 192.0.2.0/24 abuse",
			"block refused.example abuse")

		choose(b, "exclude")
		b.Wait(fmt.Sprintf(text, "standing", "/trap/"))
		lines("lines", "/calendar/", "(")
		b.Click("#preview")
		b.Wait(fmt.Sprintf(text, "give-answers", "1,234 of 5,000 waiting links match") + " && " +
			fmt.Sprintf(text, "give-answers", "calendar/2031") + " && " +
			fmt.Sprintf(text, "give-answers", "missing closing") + " && " +
			fmt.Sprintf(text, "give-answers", "a2: no answer"))
		if phone && b.Text("document.documentElement.scrollWidth > innerWidth") != "false" {
			t.Error("the answers are wider than the screen")
		}
		did()
		lines("lines", "/calendar/")
		b.Click("#give")
		confirm(b, "a trap")
		b.Wait(fmt.Sprintf(text, "give-answers", "done"))
		did("exclude /calendar/ a trap")

		b.Wait("document.querySelectorAll('#files .file').length == 2 && " +
			"document.querySelectorAll('#files tbody tr').length == 4 && " +
			"document.querySelectorAll('#files button').length == 0 && " +
			fmt.Sprintf(text, "files", "From the file /etc/orbweaver/blacklist.txt of a1, a2: 1,234 entries; "+
				"these are the first 3 of 1,200") + " && " + fmt.Sprintf(text, "files", "short.txt of a3: 1 entry.") +
			" && " + fmt.Sprintf(text, "files", "a4: no answer"))
		b.Click("#files-find")
		b.Type("x")
		b.Wait("document.querySelector('#files tbody').innerText.includes('*.ads0.examplex')")

		choose(b, "delay")
		b.Wait(fmt.Sprintf(text, "standing", "delay slow.example"))
		lines("lines", "www.a.example 10s 8-18, else 2s")
		b.Click("#give")
		confirm(b, "slow")
		b.Wait(fmt.Sprintf(text, "give-answers", "a2: no answer"))
		did("delay www.a.example 10s 8-18, else 2s slow")
	})
	b.Click("#standing .take-back")
	confirm(b, "over")
	b.Wait(fmt.Sprintf(text, "standing", "No such order"))
	did("TakeBack a1-4 over")

	logout(b)
	login(b, "look")
	b.Run("location.hash = 'steer'")
	b.Wait("document.querySelectorAll('fieldset:disabled').length == 2 && " +
		"document.querySelectorAll('#files .file').length == 2")
	for _, call := range []string{"AddSeeds", "Give"} {
		b.Run("window.got = 0; fetch('/orbweaver.operator.v1.Operator/" + call + "', {method: 'POST', headers: " +
			"{'Content-Type': 'application/json'}, body: '{}'}).then(r => { window.got = r.status })")
		b.Wait("window.got == 403")
	}
	did()
	logout(b)
}

// The week is drawn, and changed with the mouse, the keyboard and a finger.
func TestConsoleRate(t *testing.T) {
	testtier.OnlySoak(t, "a browser takes long")
	s := &stage{rate: "40/s 8-18 mon-fri, else 300/s"}
	b, _ := s.open(t)
	login(b, "secret")
	b.Run("location.hash = 'speed'")
	hour := func(day, hour int) string { return fmt.Sprintf("[data-hour='%d']", day*24+hour) }
	is := func(day, h int, want string) {
		t.Helper()
		if got := b.Text("document.querySelector(`" + hour(day, h) + "`).innerText"); got != want {
			t.Errorf("day %d, %d:00: %s, want %s", day, h, got, want)
		}
	}
	const value = "document.getElementById('rate-text').value"
	b.Wait(value + " == '40/s 8-18 mon-fri, else 300/s' && " + fmt.Sprintf(text, "holds", "40/s"))
	is(0, 7, "300")
	is(4, 17, "40")
	is(5, 12, "300")

	b.Drag(hour(5, 9), hour(6, 11)) // Saturday and Sunday, 9:00 to 12:00
	b.Wait("document.querySelectorAll('.hour.chosen').length == 6 && " + fmt.Sprintf(text, "picked", "6 of 168"))
	b.Click("#rate-value")
	b.Type("20Mbit")
	b.Key("Enter")
	b.Wait(value + " == '40/s 8-18 mon-fri, 20Mbit 9-12 sat-sun, else 300/s'")
	is(5, 9, "20M")

	b.Run("document.querySelector(`" + hour(0, 22) + "`).focus()")
	for _, key := range []string{"Shift+ArrowDown", "Shift+ArrowRight"} { // Monday and Tuesday, 22:00 to 24:00
		b.Key(key)
	}
	b.Wait("document.querySelectorAll('.hour.chosen').length == 4")
	b.Key("ArrowRight")
	b.Key("ArrowLeft")
	b.Key(" ")
	b.Wait("document.querySelectorAll('.hour.chosen').length == 3")
	b.Key(" ")
	b.Run("document.getElementById('rate-value').value = ''")
	b.Click("#rate-value")
	b.Type("none")
	b.Click("#rate-set")
	b.Wait(value + " == '40/s 8-18 mon-fri, none 22-24 mon-tue, 20Mbit 9-12 sat-sun, else 300/s'")

	b.Size(390, 844, true) // the days stand side by side
	b.Tap(hour(2, 1))
	b.Tap(hour(3, 1))
	b.Wait("document.querySelectorAll('.hour.chosen').length == 2")
	b.Run("document.querySelector(`" + hour(3, 1) + "`).focus()")
	b.Key("ArrowDown")
	b.Wait("document.activeElement.dataset.hour == '74'")
	b.Run("document.getElementById('rate-value').value = 'fast'")
	b.Click("#rate-set")
	b.Wait(fmt.Sprintf(text, "rate-problem", "is not a rate"))
	is(2, 1, "300")
	b.Run("document.getElementById('rate-value').value = '5/s'")
	b.Click("#rate-set")
	b.Wait(value + ".startsWith('40/s 8-18 mon-fri, none 22-24 mon-tue, 5/s 1-2 wed-thu')")
	b.Size(1280, 800, false)

	b.Run("document.getElementById('rate-text').value = '10/s 8:30-9 Europe/Berlin, else none'")
	b.Click("#rate-draw")
	b.Wait("document.getElementById('rate-zone').value == 'Europe/Berlin' && " +
		fmt.Sprintf(text, "rate-problem", "within an hour"))
	is(0, 8, "∞")
	b.Run("document.getElementById('rate-text').value = '7/s 0-6, else 9/s'")
	b.Click("#rate-apply")
	confirm(b, "quiet nights")
	b.Wait("document.getElementById('dialog').innerText.includes('a2: no answer')")
	b.Key("Escape")
	b.Wait(value + " == '7/s 0-6, else 9/s' && document.querySelector(`" + hour(3, 3) + "`).innerText == '7'")
	if got := s.since(); !slices.Equal(got, []string{"rate 7/s 0-6, else 9/s quiet nights"}) {
		t.Errorf("calls %q", got)
	}

	logout(b)
	login(b, "look")
	b.Run("location.hash = 'speed'")
	b.Wait(value + " == '7/s 0-6, else 9/s'")
	b.Drag(hour(0, 0), hour(0, 5))
	if n := b.Text("document.querySelectorAll('.hour.chosen, fieldset:enabled').length"); n != "0" {
		t.Errorf("a reader chooses %s hours", n)
	}
}

// The traffic is drawn by hour, with its checkpoints; the topics with their agents.
func TestConsoleTraffic(t *testing.T) {
	testtier.OnlySoak(t, "a browser takes long")
	s := &stage{}
	b, _ := s.open(t)
	login(b, "look")
	sizes(b, func(bool) {
		b.Run("location.hash = 'traffic'")
		b.Wait("document.querySelectorAll('#hours svg').length == 3 && " +
			"document.querySelectorAll('#hours svg:first-of-type rect').length >= 100 && " +
			"document.querySelectorAll('#hours path').length == 48")
		b.Wait("document.querySelector('#hours rect title').textContent.includes('270 MB')")
		b.Run("location.hash = 'topics'")
		b.Wait("document.querySelectorAll('#matrix td').length == 9 && " + fmt.Sprintf(text, "topics", "2,103"))
		b.Wait("document.querySelectorAll('#topics rect').length == 5 && " + fmt.Sprintf(text, "flow", "1,605"))
	})
	for _, c := range []struct{ hash, empty string }{{"traffic", "No hour yet"}, {"topics", "not divided by topic"}} {
		b.Run("window.real = window.real || window.fetch; window.fetch = async (u, o) => { " +
			"const r = await window.real(u, o); return /History|Status/.test(u) ? new Response('{}') : r; }")
		b.Run("location.hash = 'overview'")
		b.Run("location.hash = '" + c.hash + "'")
		b.Wait(shown + ".includes('" + c.empty + "')")
	}
}
