package frontier

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// TestStories plays testdata/stories/*.txt. A story says what is pushed, how hosts answer, and in which order and when
// the requests go out. Each line is one of
//
//	config host=2s host-of=a.example:5s ip=1s site=1s memory=100 active=1 …
//	dns    a.example 192.0.2.1        default: an address of its own
//	took   a.example 500ms            duration of each response; default 0
//	at     3s push a.example/1 …      at that time; !2 before a URL: level 2
//	at     3s front|block|unblock|withdraw|touched|explain a.example …
//	reply  a.example/1 slow|retry=10s|delay=5s|again|none …    to its first request
//	want   the next request: a time and a URL
//	|      the next line of an explanation
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/stories/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("stories: %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			must.Do(t, err)
			play(t, string(text))
		})
	}
}

type story struct {
	t     *testing.T
	cfg   Config
	dns   map[string]netip.Addr
	took  map[string]time.Duration
	reply map[string][]string
	at    []todo
	want  []string
	got   []string
}

type todo struct {
	at   time.Duration
	verb string
	args []string
}

func play(t *testing.T, text string) {
	s := &story{t: t, dns: map[string]netip.Addr{}, took: map[string]time.Duration{}, reply: map[string][]string{}}
	s.cfg.Seed = 1
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		w := strings.Fields(line)
		if len(w) == 0 {
			continue
		}
		switch w[0] {
		case "config":
			s.config(w[1:])
		case "dns":
			s.dns[w[1]] = netip.MustParseAddr(w[2])
		case "took":
			s.took[w[1]] = s.dur(w[2])
		case "at":
			s.at = append(s.at, todo{s.dur(w[1]), w[2], w[3:]})
		case "reply":
			s.reply[w[1]] = w[2:]
		case "want":
			s.want = append(s.want, strings.Join(w[1:], " "))
		case "|": // a line of explain
			s.want = append(s.want, strings.TrimSpace(line))
		default:
			t.Fatalf("line %d is unknown: %q", i+1, line)
		}
	}
	s.run()
	if diff := cmp.Diff(s.want, s.got); diff != "" {
		t.Errorf("-want +got\n%s\nall of it:\n%s", diff, strings.Join(s.got, "\n"))
	}
}

func (s *story) dur(v string) time.Duration {
	d, err := time.ParseDuration(v)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

func (s *story) config(args []string) {
	for _, a := range args {
		k, v, _ := strings.Cut(a, "=")
		switch k {
		case "host-of": // host-of=a.example:5s
			host, d, _ := strings.Cut(v, ":")
			delay := s.dur(d)
			s.cfg.Delays = delayOf(func(h string) (time.Duration, bool) { return delay, h == host })
		case "host":
			s.cfg.HostDelay = s.dur(v)
		case "ip":
			s.cfg.IPDelay = s.dur(v)
		case "site":
			s.cfg.SiteDelay = s.dur(v)
		case "slow":
			s.cfg.SlowBase = s.dur(v)
		case "forgive":
			s.cfg.ForgiveAfter = s.dur(v)
		case "active":
			s.cfg.Active, _ = strconv.Atoi(v)
		case "memory":
			s.cfg.MemoryBytes, _ = strconv.ParseInt(v, 10, 64)
		default:
			s.t.Fatalf("unknown config %q", a)
		}
	}
}

func (s *story) addr(host string) netip.Addr {
	if a, ok := s.dns[host]; ok {
		return a
	}
	a := netip.AddrFrom4([4]byte{198, 51, 100, byte(len(s.dns))})
	s.dns[host] = a
	return a
}

// short returns a URL as the stories write it.
func short(u weburl.URL) string { return strings.TrimPrefix(u.String(), "http://") }

func (s *story) run() {
	f, err := Open(testdisk.NewMem(), "frontier", s.cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	type end struct {
		at   time.Duration
		host string
		done Done
	}
	var running []end
	seen := map[string]int{}
	now := time.Duration(0)
	for range 10000 {
		// At each moment, responses end first, then the script runs, then requests go out.
		for i := 0; i < len(running); {
			if e := running[i]; e.at <= now {
				if err := f.Done(e.host, e.done, start.Add(now)); err != nil {
					s.t.Fatal(err)
				}
				running = append(running[:i], running[i+1:]...)
			} else {
				i++
			}
		}
		for len(s.at) > 0 && s.at[0].at <= now {
			s.do(f, s.at[0], start.Add(now))
			s.at = s.at[1:]
		}
		var wake time.Time
		for {
			t, w, ok := f.Next(start.Add(now))
			if wake = w; !ok {
				break
			}
			if !t.Addr.IsValid() {
				f.Resolved(t.Host, s.addr(t.Host), start.Add(now+time.Hour), start.Add(now))
				continue
			}
			url := short(t.Link.URL)
			s.got = append(s.got, fmt.Sprintf("%v %s", now.Round(time.Millisecond), url))
			e := end{now + s.took[t.Host], t.Host, Done{}}
			seen[url]++
			if seen[url] == 1 {
				e.done = s.answer(t, s.reply[url], start.Add(now))
			}
			running = append(running, e)
			if e.at == now {
				if err := f.Done(e.host, e.done, start.Add(now)); err != nil {
					s.t.Fatal(err)
				}
				running = running[:len(running)-1]
			}
		}
		if err := f.check(); err != nil {
			s.t.Fatal(err)
		}
		next := time.Duration(-1)
		earliest := func(d time.Duration) {
			if next < 0 || d < next {
				next = d
			}
		}
		if !wake.IsZero() {
			earliest(wake.Sub(start))
		}
		for _, e := range running {
			earliest(e.at)
		}
		if len(s.at) > 0 {
			earliest(s.at[0].at)
		}
		if next < 0 {
			return
		}
		if next <= now {
			s.t.Fatalf("at %v, wake is %v; want a later time", now, next)
		}
		now = next
	}
	s.t.Fatal("the story has not ended after 10000 steps")
}

func (s *story) answer(t Task, words []string, now time.Time) (d Done) {
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		switch k {
		case "slow":
			d.SlowDown = true
		case "retry":
			d.RetryAfter = s.dur(v)
		case "delay":
			d.Delay = s.dur(v)
		case "again":
			d.Again, d.Attempt = &t.Link, t.Attempt+1
		case "none":
			d.NoRequest = true
		case "notbefore":
			d.NotBefore = now.Add(s.dur(v))
		default:
			s.t.Fatalf("unknown reply %q", w)
		}
	}
	return d
}

func (s *story) do(f *Frontier, d todo, now time.Time) {
	var ls []link.Link
	if d.verb == "push" || d.verb == "front" {
		for _, a := range d.args {
			var level uint8
			if l, ok := strings.CutPrefix(a, "!"); ok {
				level, a = l[0]-'0', l[1:]
			}
			ls = append(ls, linkOf(s.t, "http://"+a, level))
		}
	}
	var err error
	switch d.verb {
	case "push":
		err = f.Push(ls)
	case "front":
		for _, l := range ls {
			err = f.PushFront(l)
		}
	case "block":
		f.Block(d.args[0])
	case "unblock":
		f.Unblock(d.args[0])
	case "withdraw":
		f.Withdraw(d.args[0])
	case "touched":
		f.Touched(d.args[0], s.dur(d.args[1]), now)
	case "explain":
		for _, l := range strings.Split(strings.TrimSpace(f.Explain(d.args[0], now).String()), "\n") {
			s.got = append(s.got, "| "+strings.TrimSpace(l))
		}
	default:
		s.t.Fatalf("unknown command %q", d.verb)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}
