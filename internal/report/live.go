package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
)

// A HostRow is a host in the table of the live display.
type HostRow struct {
	Host  string
	Links int64
	Delay time.Duration // between two requests; with Links it bounds the time that the host takes
	State string        // one word
	Open  time.Duration // since when URL is being fetched; 0: it is not
	In    time.Duration // until the next request; 0: now or unknown
	Why   string        // what the host waits for, if it is not its own time
	URL   string        // being fetched, or next
}

// left returns the time in which the host can be done at the earliest.
func (h *HostRow) left() time.Duration { return Least(h.Links, h.Delay) }

// Least returns the time that links of a host take at least: each takes the host's delay, or longer. It is 0 without a
// delay.
func Least(links int64, delay time.Duration) time.Duration {
	if delay <= 0 || links > int64(math.MaxInt64/delay) {
		return 0
	}
	return time.Duration(links) * delay
}

// A line of the display is a sequence of texts in different styles.
type line []styled

// A styled is a text in one style: the parameter of the escape sequence SGR. The empty style is that of the terminal.
type styled struct{ text, style string }

const (
	bold, dim, red, yellow = "1", "2", "31", "33"
)

// Ranks order the lines by importance: if the terminal is not tall enough, the display leaves out the last ranks.
const (
	rankState = iota
	rankPages
	rankNow
	rankQueue
	rankErrors
	rankKinds
	rankHosts
	rankBytes
	rankAgain
	rankTable
)

// A block is the content of the live display, before it is fitted to the terminal.
type block struct {
	lines []line
	ranks []int
}

func (b *block) add(rank int, l line) {
	b.lines, b.ranks = append(b.lines, l), append(b.ranks, rank)
}

// most removes the least important lines until at most n are left.
func (b *block) most(n int) {
	for rank := rankTable; len(b.lines) > n && rank > rankState; rank-- {
		for i := len(b.lines) - 1; i >= 0 && len(b.lines) > n; i-- {
			if b.ranks[i] == rank {
				b.lines, b.ranks = append(b.lines[:i], b.lines[i+1:]...), append(b.ranks[:i], b.ranks[i+1:]...)
			}
		}
	}
	b.lines = b.lines[:min(len(b.lines), max(n, 0))]
}

// live is the state of the live display on the terminal.
type live struct {
	widths      [8]int    // of the columns of numbers and of their units; they only grow
	host        int       // width of the column of hosts, which only grows
	queue       int       // the same for the column of queues
	rows        int       // of the table; they only grow, so that the display does not jump
	hadKinds    bool      // the line of errors by kind was shown and stays
	hadAgain    bool      // the same for the line of revisits
	hadLeft     bool      // and for the column of the time that a host takes
	drawn       []int     // width of each line on the terminal
	cols, lines int       // size of the terminal, when it was last asked for
	resized     time.Time // when the size was last seen to change
	moved       bool      // it has changed since the last drawing
	torn        bool      // the terminal was once too small for what was drawn
	notes       []string
}

// notesMax is the number of messages that are shown again when the screen is cleared.
const notesMax = 100

// A number stands with its unit in a table whose columns are aligned.
type number struct{ value, unit, style string }

// cells returns a line of the table of numbers. Numbers are right-aligned, units left-aligned.
func (v *live) cells(name string, cells ...number) (l line) {
	l = line{{fmt.Sprintf("  %-8s ", name), ""}}
	for i, c := range cells {
		n, u, unit := &v.widths[2*i], &v.widths[2*i+1], c.unit
		*n = max(*n, width(c.value))
		if i < len(cells)-1 {
			*u = max(*u, width(unit))
			unit = pad(unit, *u, false) + "  "
		}
		l = append(l, styled{pad(c.value, *n, true) + " " + unit, c.style})
	}
	return l
}

func comma(n int64) string { return humanize.Comma(n) }

// amountOf returns n with its noun as the unit.
func amountOf(n int64, noun string) number {
	return number{comma(n), english.PluralWord(int(n), noun, ""), ""}
}

// perSecond formats a number of pages per second.
func perSecond(x float64) string {
	switch {
	case x >= 1000:
		return comma(int64(x))
	case x > 0 && x < 0.1:
		return strconv.FormatFloat(x, 'f', 2, 64)
	}
	return strconv.FormatFloat(x, 'f', 1, 64)
}

// amount splits a size in bytes into a number and a unit.
func amount(n int64) (number, unit string) {
	number, unit, _ = strings.Cut(humanize.Bytes(uint64(max(n, 0))), " ")
	return number, unit
}

// block returns the live display for a terminal with this many lines.
func (p *Progress) block(s Snapshot, pages, bytes float64, lines int) []line {
	b, v := new(block), &p.live
	b.add(rankState, p.head(s, pages, bytes))
	switch s.State {
	case "done": // the summary has the numbers
		return b.lines
	case "starting":
		b.add(rankNow, v.now(s))
		b.most(lines)
		return b.lines
	}
	of, size := "", ""
	if s.PageLimit > 0 {
		of = "of " + comma(s.PageLimit)
	}
	if s.SizeLimit > 0 {
		size = " of " + humanize.Bytes(uint64(s.SizeLimit))
	}
	got, unit := amount(s.Bytes)
	speed, perS := amount(int64(max(bytes, 0)))
	b.add(rankPages, v.cells("pages", number{comma(s.Pages), of, ""},
		number{perSecond(pages), "a second", ""}, number{perSecond(s.mean()), "on average", ""}))
	if s.Files > 0 {
		b.add(rankAgain, v.cells("files", number{comma(s.Files), "beside the pages", ""}))
	}
	third := []number{}
	if s.Memory > 0 {
		used, of := amount(s.Memory)
		third = append(third, number{used, of + " of memory", ""})
	}
	b.add(rankBytes, v.cells("size", append([]number{{got, unit + size, ""}, {speed, perS + "/s", ""}}, third...)...))
	if s.Disk.Size > 0 {
		free, unit := amount(int64(s.Disk.Free))
		all, of := amount(int64(s.Disk.Size))
		rank, style := rankAgain, ""
		if s.Disk.IsScarce() {
			rank, style = rankErrors, red
		}
		b.add(rank, v.cells("disk", number{free, unit + " free", style}, number{all, of + " in all", ""}))
	}
	b.add(rankQueue, v.cells("queue", amountOf(s.Queued, "URL"), amountOf(int64(s.Open), "open request"),
		number{comma(s.Unique), "accepted", ""}))
	b.add(rankHosts, v.cells("hosts", number{comma(int64(s.Ready)), "ready", ""},
		number{comma(int64(s.Resting)), "resting", ""}, number{comma(int64(s.Paused)), "paused", ""},
		number{comma(int64(s.Resolving)), "resolving", ""}))
	if v.hadAgain = v.hadAgain || s.Revisits > 0 || s.NextIn > 0; v.hadAgain {
		l := v.cells("again", amountOf(s.Revisits, "visit"), number{comma(s.Unchanged), "the same", ""})
		if s.NextIn > 0 {
			l = append(l, styled{"  next in " + seconds(s.NextIn), ""})
		}
		b.add(rankAgain, l)
	}
	failed, kinds := byKind(s.Errors)
	retried, tries := byKind(s.Retrying)
	v.hadKinds = v.hadKinds || failed > 0 || retried > 0
	urls := amountOf(failed, "URL")
	urls.style = styleIf(failed > 0, red)
	b.add(rankErrors, v.cells("errors", urls, number{comma(retried), "retrying", styleIf(retried > 0, yellow)},
		number{comma(s.Denied), "denied by robots.txt", ""}))
	if v.hadKinds {
		l := line{{"           ", ""}, {strings.Join(kinds, ", "), red}}
		if len(tries) > 0 {
			if len(kinds) > 0 {
				l = append(l, styled{"; ", ""})
			}
			l = append(l, styled{"retrying " + strings.Join(tries, ", ") + nextIn(s.RetryIn), yellow})
		}
		b.add(rankKinds, l)
	}
	b.add(rankNow, v.now(s))
	v.table(b, s.Hosts, lines-len(b.lines))
	b.most(lines)
	return b.lines
}

func styleIf(yes bool, style string) string {
	if yes {
		return style
	}
	return ""
}

// head returns the first line: agent, state, time and the hint.
func (p *Progress) head(s Snapshot, pages, bytes float64) line {
	state := cmp.Or(s.State, "crawling")
	style := map[string]string{"waiting": "1;33", "stopping": "1;33", "paused": "1;33", "starting": bold}[state]
	style = cmp.Or(style, "1;32")
	when := Span(s.Elapsed)
	if s.TimeLimit > 0 {
		when = Span(s.Ran) + " of " + Span(s.TimeLimit)
	}
	if d, limit, ok := s.eta(pages, bytes); ok {
		when += fmt.Sprintf(", %s in %s", limit, Span(d))
	}
	if len(s.Agents) > 1 {
		when += fmt.Sprintf(", %d agents", len(s.Agents))
	}
	l := line{{p.named(state), style}, {"  " + when, ""}}
	if hint := p.hint(state); hint != "" {
		if room := p.live.cols - 1 - l.width() - width(hint); room >= 2 {
			l = append(l, styled{strings.Repeat(" ", room) + hint, dim})
		}
	}
	return l
}

// hint says what Ctrl-C does.
func (p *Progress) hint(state string) string {
	switch {
	case p.Hint == "" || state == "done":
		return ""
	case state == "stopping":
		return "Ctrl-C exits at once"
	}
	return p.Hint
}

// now returns the line that says what is being fetched or what the crawl waits for.
func (v *live) now(s Snapshot) line {
	switch {
	case s.WaitingFor != "":
		return line{{"  waiting  ", ""}, {"for " + CleanText(s.WaitingFor), yellow}}
	case s.State == "starting":
		return nil
	case s.NowURL == "" || s.State != "":
		return line{{"  now", ""}}
	}
	return line{{"  now      ", ""}, {Clean(s.NowURL), dim}}
}

// table adds the hosts, if there is room for at least two of them. room is the number of lines.
func (v *live) table(b *block, hosts []HostRow, room int) {
	const heading = 2 // an empty line and the names of the columns
	if len(hosts) == 0 && v.rows == 0 || room < heading+min(2, max(len(hosts), v.rows)) {
		return
	}
	v.rows = max(v.rows, len(hosts))
	rows := min(v.rows, room-heading)
	for _, h := range hosts[:min(len(hosts), rows)] {
		v.host = max(v.host, min(width(Clean(h.Host)), 40))
		v.queue = max(v.queue, len(comma(h.Links)))
	}
	v.host, v.queue = max(v.host, len("host")), max(v.queue, len("queue"))
	host := min(v.host, max(v.cols/3, 12))
	b.add(rankTable, nil)
	v.hadLeft = v.hadLeft || slices.ContainsFunc(hosts, func(h HostRow) bool { return h.left() >= time.Minute })
	left := func(text string) string {
		if !v.hadLeft || v.cols < 70 {
			return ""
		}
		return pad(text, 8, true) + "  "
	}
	names := fmt.Sprintf("  %s  %s  %s%-9s  next request", pad("host", host, false), pad("queue", v.queue, true),
		left("at least"), "state")
	b.add(rankTable, line{{names, dim}})
	for i := range rows {
		if i >= len(hosts) {
			b.add(rankTable, nil)
			continue
		}
		h := hosts[i]
		what := ""
		switch {
		case h.Open > 0:
			what = seconds(h.Open)
		case h.In > 0:
			what = "in " + seconds(h.In)
		}
		if what = pad(what, 9, true) + " "; h.Why != "" {
			what += CleanText(h.Why) + "  "
		}
		style := ""
		switch h.State {
		case "paused", "blocked":
			style = yellow
		case "fetching":
			style = bold
		}
		b.add(rankTable, line{
			{"  " + pad(fit(Clean(h.Host), host), host, false), ""},
			{"  " + pad(comma(h.Links), v.queue, true) + "  " + left(Span(h.left())), ""},
			{pad(OneLine(h.State), 9, false), style}, {"  " + what, ""}, {path(h.URL), dim},
		})
	}
}

// path returns what follows the host in a URL.
func path(url string) string {
	url = Clean(url)
	if _, rest, ok := strings.Cut(url, "://"); ok {
		if i := strings.IndexByte(rest, '/'); i >= 0 {
			return rest[i:]
		}
	}
	return url
}

// seconds formats a time since or until something: as milliseconds below a second, then as whole seconds or larger
// units, rounded up. It is never 0.
func seconds(d time.Duration) string {
	switch d = max(d, 1); {
	case d <= time.Second-time.Millisecond:
		return strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10) + "ms"
	case d < 10*time.Second:
		return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10) + "s"
	}
	return Span(d)
}

func (l line) width() (n int) {
	for _, s := range l {
		n += width(s.text)
	}
	return n
}

// write writes l in at most cols columns, and returns the number of columns that it takes.
func (l line) write(b *strings.Builder, cols int, color bool) (taken int) {
	for _, s := range l {
		text := OneLine(s.text)
		if room := cols - taken; width(text) > room {
			text = fit(text, room)
		}
		taken += width(text)
		if color && s.style != "" && text != "" {
			b.WriteString("\x1b[" + s.style + "m" + text + "\x1b[0m")
		} else {
			b.WriteString(text)
		}
		if taken >= cols {
			break
		}
	}
	return taken
}

// settle is the time for which the size of the terminal must stay the same before the display is drawn again. Some
// terminals save what home clears to their history. So many changes in a row save it once.
const settle = 300 * time.Millisecond

// settling looks at the size of the terminal, and reports whether it has changed lately.
func (p *Progress) settling(now time.Time) bool {
	v := &p.live
	if drawn := v.lines > 0; p.measure() && drawn {
		v.resized = now
	}
	return !v.resized.IsZero() && now.Sub(v.resized) < settle
}

// measure looks at the size of the terminal, and reports whether it has changed.
func (p *Progress) measure() (changed bool) {
	v := &p.live
	cols, lines := p.terminal()
	for _, w := range v.drawn {
		v.torn = v.torn || w > cols
	}
	v.torn = v.torn || len(v.drawn) >= lines
	changed = cols != v.cols || lines != v.lines
	v.moved = v.moved || changed && v.lines > 0
	v.cols, v.lines = cols, lines
	return changed
}

// draw replaces the display on the terminal by lines, in a single write.
func (p *Progress) draw(s Snapshot, pages, bytes float64) {
	var b strings.Builder
	p.home(&b)
	v := &p.live
	for _, l := range p.block(s, pages, bytes, v.lines-1) {
		// Leave the last column empty: some terminals wrap a line that fills it.
		v.drawn = append(v.drawn, l.write(&b, v.cols-1, p.Color))
		b.WriteString(clearLine + "\n")
	}
	b.WriteString(clearBelow)
	io.WriteString(p.w, b.String())
}

// Each line is cleared behind its new text, not the whole display before drawing. So it does not flicker, and terminals
// that save cleared lines at the top of the screen to their history do not save every display.
const clearLine, clearBelow = "\x1b[K", "\x1b[J"

// home moves the cursor to the beginning of the display.
//
// If the terminal has become so small that it has wrapped, cut or moved lines of the display away, nobody knows where
// the display begins: terminals differ. Then home clears the screen and writes the last messages again. From then on
// it does so at each change of the size, because a terminal that grows may bring such lines back.
func (p *Progress) home(b *strings.Builder) {
	p.measure()
	v := &p.live
	if v.moved && v.torn {
		b.WriteString("\x1b[H" + clearBelow)
		for _, note := range v.notes[max(0, len(v.notes)-max(v.lines/3, 1)):] {
			line{{note, ""}}.write(b, v.cols-1, false)
			b.WriteString(clearLine + "\n")
		}
	} else if len(v.drawn) > 0 {
		fmt.Fprintf(b, "\x1b[%dA\r", len(v.drawn))
	}
	v.moved, v.drawn = false, v.drawn[:0]
}

// message writes text above the display.
func (p *Progress) message(text string) {
	var b strings.Builder
	p.home(&b)
	if p.live.notes = append(p.live.notes, text); len(p.live.notes) > notesMax {
		p.live.notes = p.live.notes[1:]
	}
	b.WriteString(text + clearLine + "\n" + clearBelow)
	io.WriteString(p.w, b.String())
}

// terminal returns the size of the terminal.
func (p *Progress) terminal() (cols, lines int) {
	if p.size != nil {
		cols, lines = p.size()
	}
	if cols <= 0 {
		cols = 80
	}
	if lines <= 0 {
		lines = 24
	}
	return cols, lines
}
