package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// A screen simulates a terminal with a history. It knows the escape sequences that Progress sends and fails the test at
// any other.
type screen struct {
	t           *testing.T
	cols, lines int
	reflow      bool     // a resize wraps long rows, otherwise it cuts them
	pull        bool     // a terminal that grows shows rows of its history again
	rows        []string // of the history and of the screen
	top         int      // the first row on the screen
	row, col    int      // the cursor; row counts from the begin of the history
	styles      int
	clears      int // of the whole screen
}

func newScreen(t *testing.T, cols, lines int) *screen { return &screen{t: t, cols: cols, lines: lines} }

func (s *screen) size() (cols, lines int) { return s.cols, s.lines }

func (s *screen) scroll() { s.top = max(s.top, s.row-s.lines+1) }

func (s *screen) fill() {
	for len(s.rows) <= s.row {
		s.rows = append(s.rows, "")
	}
}

func (s *screen) put(r rune) {
	w := runewidth.RuneWidth(r)
	if s.col+w > s.cols {
		s.row, s.col = s.row+1, 0
		s.scroll()
	}
	s.fill()
	line := []rune(s.rows[s.row])
	for len(line) < s.col {
		line = append(line, ' ')
	}
	cells := []rune{r, 0}[:w] // 0 is the second cell of a wide character
	line = append(append(line[:s.col:s.col], cells...), line[min(s.col+w, len(line)):]...)
	s.rows[s.row] = string(line)
	s.col += w
}

func (s *screen) Write(b []byte) (int, error) {
	text := string(b)
	for text != "" {
		if rest, ok := strings.CutPrefix(text, "\x1b["); ok {
			i := strings.IndexAny(rest, "AHJKm")
			if i < 0 {
				s.t.Fatalf("unknown sequence %.20q", text)
			}
			n, _ := strconv.Atoi(rest[:i])
			switch rest[i] {
			case 'A':
				s.row = max(s.row-n, s.top)
			case 'H':
				s.row, s.col = s.top, 0
			case 'J':
				if s.row == s.top && s.col == 0 {
					s.clears++
				}
				s.rows = s.rows[:min(s.row, len(s.rows))]
			case 'K':
				if s.row < len(s.rows) {
					line := []rune(s.rows[s.row])
					s.rows[s.row] = string(line[:min(s.col, len(line))])
				}
			case 'm':
				s.styles++
			}
			text = rest[i+1:]
			continue
		}
		r := []rune(text)[0]
		text = text[len(string(r)):]
		switch {
		case r == '\n':
			s.fill()
			s.row, s.col = s.row+1, 0
			s.scroll()
		case r == '\r':
			s.col = 0
		case r < ' ' || r == 0x7f:
			s.t.Fatalf("control character %q", r)
		default:
			s.put(r)
		}
	}
	return len(b), nil
}

// resize wraps or cuts the rows to the new size, as terminals do.
func (s *screen) resize(cols, lines int) {
	var rows []string
	top, row := 0, 0
	for i, l := range append(s.rows, "") { // the cursor may stand below the last row
		if i == s.top {
			top = len(rows)
		}
		if i == s.row {
			row = len(rows)
		}
		r := []rune(l)
		for s.reflow && len(r) > cols {
			rows, r = append(rows, string(r[:cols])), r[cols:]
		}
		rows = append(rows, string(r[:min(len(r), cols)]))
	}
	if s.pull && lines > s.lines {
		top = max(0, top-(lines-s.lines))
	}
	s.rows, s.cols, s.lines = rows[:len(rows)-1], cols, lines
	s.top, s.row, s.col = top, row, 0
	s.scroll()
}

// visible returns the rows on the screen.
func (s *screen) visible() []string {
	rows := s.rows[min(s.top, len(s.rows)):]
	return strings.Split(strings.ReplaceAll(strings.Join(rows, "\n"), "\x00", ""), "\n")
}

func (s *screen) String() string { return strings.Join(s.visible(), "\n") + "\n" }

// TestLive shows a crawl at several sizes of the terminal.
func TestLive(t *testing.T) {
	sc := newScreen(t, 80, 24)
	p := NewProgress(sc, Live, sc.size)
	p.Hint = "Ctrl-C saves"
	var out strings.Builder
	now := at
	p.Show(Snapshot{State: "starting", WaitingFor: "3 agents", Agents: []string{"a1", "a2"}}, now)
	fmt.Fprintf(&out, "--- starting\n%s", sc)
	now = now.Add(time.Second)
	for i, s := range snapshots() {
		p.Show(s, now)
		soon := s
		soon.NowURL = "http://too-soon.example/"
		p.Show(soon, now.Add(time.Millisecond))
		fmt.Fprintf(&out, "--- %d\n%s", i, sc)
		now = now.Add(10 * time.Second)
	}
	p.Message("archive rotated:\tevil\x1b[2J")
	fmt.Fprintf(&out, "--- message\n%s", sc)
	s := snapshots()[1]
	for _, size := range [][2]int{{20, 6}, {40, 12}, {200, 60}, {20, 60}, {80, 17}} {
		sc.resize(size[0], size[1])
		p.Show(s, now)
		now = now.Add(time.Second)
		p.Show(s, now)
		now = now.Add(time.Second)
		fmt.Fprintf(&out, "--- %d columns, %d lines\n%s", size[0], size[1], sc)
	}
	s.State, s.Pages = "done", 1801
	p.Show(s, now)                           // too soon after the last display
	p.Close(now.Add(100 * time.Millisecond)) // so Close displays it
	p.Show(snapshots()[0], now.Add(time.Hour))
	p.Close(now.Add(time.Hour))
	p.Message("said afterwards")
	fmt.Fprintf(&out, "--- closed\n%s", sc)
	if sc.styles != 0 {
		t.Error("colours, although Color is false")
	}
	golden(t, "live.txt", out.String())
}

// TestLiveResize: whatever the sizes of the terminal, and whether it wraps or cuts long rows, the display is on it
// exactly once, below what was there before, and no row is as wide as the terminal.
func TestLiveResize(t *testing.T) {
	rnd := testseed.Rand(t)
	for range testtier.Rounds(5, 20) {
		sc := newScreen(t, 20+rnd.IntN(181), 6+rnd.IntN(55))
		sc.reflow, sc.pull = rnd.IntN(2) == 0, rnd.IntN(2) == 0
		fmt.Fprintf(sc, "%s\n", strings.Repeat("before\n", rnd.IntN(70)))
		p := NewProgress(sc, Live, sc.size)
		p.Hint, p.Agent, p.Color = "Ctrl-C saves", "a1", true
		all, now := snapshots(), at
		for range 25 {
			switch rnd.IntN(4) {
			case 0:
				sc.resize(20+rnd.IntN(181), 6+rnd.IntN(55))
			case 1:
				p.Message("a message of the crawl")
			}
			s := all[rnd.IntN(len(all))]
			s.Pages *= int64(rnd.IntN(1000))
			p.Show(s, now) // sees the new size
			now = now.Add(time.Second)
			p.Show(s, now)
			now = now.Add(time.Second)
			heads, pages, hosts := 0, 0, 0
			rows := sc.visible()
			for _, row := range rows {
				if w := runewidth.StringWidth(row); w > sc.cols {
					t.Fatalf("%d columns: a row has %d: %q", sc.cols, w, row)
				}
				for n, start := range map[*int]string{&heads: "a1: ", &pages: "  pages", &hosts: "  host   "} {
					if strings.HasPrefix(row, start) && !strings.Contains(row, "a message") {
						*n++
					}
				}
			}
			if heads != 1 || pages != 1 || hosts > 1 {
				t.Fatalf("%d by %d: %d heads, %d lines of pages, %d tables:\n%s", sc.cols, sc.lines, heads, pages,
					hosts, strings.Join(rows, "\n"))
			}
			if sc.lines >= 16 && sc.cols >= 40 && len(s.Hosts) > 0 && hosts != 1 {
				t.Fatalf("%d by %d: no hosts:\n%s", sc.cols, sc.lines, sc)
			}
		}
	}
}

// TestLiveStorm: while the size of the terminal keeps changing, the display is not drawn. So a terminal that saves
// cleared lines saves them once.
func TestLiveStorm(t *testing.T) {
	sc := newScreen(t, 100, 30)
	sc.reflow, sc.pull = true, true
	p := NewProgress(sc, Live, sc.size)
	p.Hint = "Ctrl-C saves"
	s, now := snapshots()[1], at
	p.Show(s, now)
	for i := range 200 {
		sc.resize(30+i*37%90, 8+i*13%40)
		now = now.Add(50 * time.Millisecond)
		p.Show(s, now)
	}
	if sc.clears != 0 {
		t.Errorf("the screen was cleared %d times during the storm", sc.clears)
	}
	for range 10 {
		now = now.Add(100 * time.Millisecond)
		p.Show(s, now)
	}
	if sc.clears != 1 || strings.Count(sc.String(), "  pages") != 1 {
		t.Errorf("the screen was cleared %d times after the storm, want once:\n%s", sc.clears, sc)
	}
	sc.resize(25, 8)
	s.State = "done"
	p.Show(s, now.Add(time.Millisecond))
	p.Close(now.Add(2 * time.Millisecond))
	if !strings.Contains(sc.String(), "done") {
		t.Errorf("the last display does not wait:\n%s", sc)
	}
}

// TestAligned: numbers that grow and shrink do not move the columns, once they were as wide.
func TestAligned(t *testing.T) {
	sc := newScreen(t, 120, 30)
	p := NewProgress(sc, Live, sc.size)
	columns := func(pages int64) (at []int) {
		s := snapshots()[0]
		s.Pages, s.Queued, s.Open = pages, 3*pages, int(pages/1000)
		p.Show(s, at0(pages))
		for _, row := range sc.visible() {
			units := []string{" of 10,000", " a second", " on average", " URL", " open request", " accepted",
				" resting"}
			for _, unit := range units {
				if i := strings.Index(row, unit); i >= 0 {
					at = append(at, i)
				}
			}
		}
		return at
	}
	columns(1_234_567)
	want := columns(7_654_321)
	for _, n := range []int64{1, 999, 1000, 54_321, 1_000_000} {
		if got := columns(n); len(got) != len(want) || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%d pages: units at %v, want %v:\n%s", n, got, want, sc)
		}
	}
}

// at0 returns another moment for each n.
func at0(n int64) time.Time { return at.Add(time.Duration(n) * time.Second) }

func TestColor(t *testing.T) {
	sc := newScreen(t, 60, 24)
	p := NewProgress(sc, Live, sc.size)
	p.Color = true
	p.Show(snapshots()[0], at)
	if sc.styles == 0 || sc.styles%2 != 0 {
		t.Errorf("got %d changes of style, want an even number above 0", sc.styles)
	}
	plain := newScreen(t, 60, 24)
	q := NewProgress(plain, Live, plain.size)
	q.Show(snapshots()[0], at)
	if sc.String() != plain.String() {
		t.Errorf("with colours:\n%swithout:\n%s", sc, plain)
	}
}

// FuzzClean: no control character of any input reaches the terminal.
func FuzzClean(f *testing.F) {
	for _, s := range []string{"http://a.example/", "\x1b[2J", "\u009b2J", "a\u202eb", "é\xff", "%41 \t"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		sc := newScreen(t, 30, 40)
		p := NewProgress(sc, Live, sc.size)
		hosts := []HostRow{{Host: s, State: s, Why: s, URL: s}, {Host: "x" + s, URL: "http://h/" + s}}
		p.Show(Snapshot{NowURL: s, Errors: map[string]int64{s: 1}, Retrying: map[string]int64{s: 1}, Hosts: hosts}, at)
		p.Message(s)
		p.Show(Snapshot{WaitingFor: s, State: "waiting"}, at.Add(time.Hour))
		for _, r := range sc.String() + Clean(s) {
			if r != '\n' && (r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e) {
				t.Fatalf("%q reaches the screen", r)
			}
		}
	})
}

// TestFit: a cut text takes at most the columns, also if characters are wide or have no width.
func TestFit(t *testing.T) {
	for _, tt := range []struct {
		s    string
		n    int
		want string
	}{
		{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"abc", 1, "…"}, {"abc", 0, ""}, {"", 0, ""},
		{"日本語", 6, "日本語"}, {"日本語", 5, "日本…"}, {"日本語", 4, "日…"}, {"e\u0301e\u0301e\u0301", 2, "e\u0301…"},
		{"👍🏽👍🏽", 4, "👍…"},
	} {
		if got := fit(tt.s, tt.n); got != tt.want {
			t.Errorf("%q in %d columns: %q, want %q", tt.s, tt.n, got, tt.want)
		}
	}
}

// A host with many links says how long they take at least, on a terminal that has room.
func TestLiveLeft(t *testing.T) {
	for cols, want := range map[int]string{80: "7,204     4h 0m  resting", 60: "7,204  resting"} {
		sc := newScreen(t, cols, 24)
		p := NewProgress(sc, Live, sc.size)
		p.Show(Snapshot{Pages: 1, Hosts: []HostRow{
			{Host: "a.example", Links: 7204, Delay: 2 * time.Second, State: "resting"},
			{Host: "b.example", Links: 3, State: "ready"},
		}}, at)
		got := strings.Join(sc.visible(), "\n")
		if !strings.Contains(got, want) || strings.Contains(got, "at least") != (cols == 80) {
			t.Errorf("%d columns: want %q in\n%s", cols, want, got)
		}
	}
	if left := (&HostRow{Links: math.MaxInt64, Delay: time.Hour}).left(); left != 0 {
		t.Errorf("left %v of too many links, want 0", left)
	}
}
