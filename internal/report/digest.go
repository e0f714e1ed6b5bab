package report

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// HostErrors is a host and the number of its URLs that failed.
type HostErrors struct {
	Host   string
	Errors int64
}

// worstMax is the number of hosts that a Summary names for their errors.
const worstMax = 3

// worst returns the hosts with the most errors.
func (t *Tally) worst() (list []HostErrors) {
	for name, h := range t.hosts.all() {
		n := int64(h.errors)
		if n == 0 || len(list) == worstMax && n <= list[worstMax-1].Errors {
			continue
		}
		list = append(list, HostErrors{string(name), n})
		slices.SortStableFunc(list, func(a, b HostErrors) int { return cmp.Compare(b.Errors, a.Errors) })
		list = list[:min(len(list), worstMax)]
	}
	return list
}

// A Row is a line of a text for people: a short name and what there is to say.
type Row struct{ Name, Text string }

// FormatRows returns rows as lines of at most 80 columns, as far as their words allow. A no-break space keeps words
// together.
func FormatRows(rows []Row) string {
	const textWidth = 80
	names := 0
	for _, r := range rows {
		names = max(names, width(r.Name))
	}
	var b strings.Builder
	for _, r := range rows {
		b.WriteString(pad(r.Name, names, false) + " ")
		used := names + 1
		for i, word := range strings.Split(r.Text, " ") {
			if n := width(word); i > 0 && used+1+n > textWidth {
				b.WriteString("\n" + strings.Repeat(" ", names+2) + word)
				used = names + 2 + n
			} else {
				b.WriteString(" " + word)
				used += 1 + n
			}
		}
		b.WriteByte('\n')
	}
	return strings.ReplaceAll(b.String(), noBreak, " ")
}

const noBreak = "\u00a0"

// together returns s with its words on one line.
func together(s string) string { return strings.ReplaceAll(s, " ", noBreak) }

// String says what the crawl has fetched, and what not and why.
func (s Summary) String() string { return FormatRows(s.Rows()) }

// Rows says what the crawl has fetched, and what not and why.
func (s Summary) Rows() (rows []Row) {
	add := func(name string, parts ...string) {
		parts = slices.DeleteFunc(parts, func(p string) bool { return p == "" })
		if len(parts) > 0 {
			rows = append(rows, Row{name, strings.Join(parts, "; ")})
		}
	}
	if s.Fetched == 0 {
		add("fetched", "nothing, in "+s.took())
	} else {
		add("fetched", fmt.Sprintf("%s, %s, from %s in %s (%s a second)", some(s.Pages, "page"),
			humanize.Bytes(uint64(max(s.Bytes, 0))), some(int64(s.Hosts), "host"), s.took(), perSecond(s.PagesPerS)))
	}
	add("", most(s.otherStatus(), "other responses: ", 5))
	add("", few(s.Duplicates, "response", "with content that the archive had already"))
	add("", few(s.Truncated, "response", "cut off"))
	add("", few(s.Unkept, "response", "not archived, because of --keep"))
	if s.Revisits > 0 {
		add("", fmt.Sprintf("%s: %s unchanged, %s changed", some(s.Revisits, "revisit"), comma(s.Unchanged),
			comma(s.Changed)))
	}
	var failed int64
	for _, n := range s.Errors {
		failed += n
	}
	var worst []string
	for _, h := range s.Worst {
		worst = append(worst, together(Clean(h.Host)+" "+comma(h.Errors)))
	}
	if failed > 0 {
		add("failed", some(failed, "URL")+": "+most(s.Errors, "", 6), mostly("most at ", worst))
	}
	add("skipped", most(s.reasons(), "", 6))
	s.cluster(add)
	return rows
}

// cluster adds what an agent has done for the other agents.
func (s *Summary) cluster(add func(name string, parts ...string)) {
	if s.Exchange == nil && s.Moves == nil {
		return
	}
	var moved, links, same string
	if m := s.Moves; m != nil && m.Claimed+m.Given > 0 {
		moved = fmt.Sprintf("%s came, %s went", some(m.Claimed, "host"), comma(m.Given))
	}
	if e := s.Exchange; e != nil {
		links = fmt.Sprintf("%s sent (%.2f a page), %s in all", some(e.Links, "link"), e.LinksPerPage,
			humanize.Bytes(uint64(max(e.Bytes, 0))))
	}
	if c := s.Contents; c != nil && c.Duplicates > 0 {
		same = some(c.Duplicates, "page") + " with the content of a page that any agent has"
	}
	add("agents", links, moved, same)
}

func (s *Summary) took() string { return span(time.Duration(s.DurationS * float64(time.Second))) }

// otherStatus returns the counts of all responses that are no pages, with the words of their codes.
func (s *Summary) otherStatus() map[string]int64 {
	counts := make(map[string]int64)
	for k, n := range s.Status {
		if code, err := strconv.Atoi(k); err == nil && code >= 300 {
			counts[strings.TrimSpace(k+" "+http.StatusText(code))] = n
		}
	}
	return counts
}

// reasons returns the counts of skipped links by reason in words. All traps are one reason.
func (s *Summary) reasons() map[string]int64 {
	counts := make(map[string]int64)
	for k, n := range s.Skipped {
		words := cmp.Or(ReasonText(k), k)
		if strings.HasPrefix(k, "trap") {
			words = "looks like a trap"
		}
		counts[words] += n
	}
	forbidden := ReasonText("robotsTxt")
	if s.Denied > counts[forbidden] {
		counts[forbidden] = s.Denied
	}
	return counts
}

// most lists the n largest counts after the text what, and says how many there are besides. Without any, it is empty.
func most(counts map[string]int64, what string, n int) string {
	var list []string
	var rest int64
	for i, k := range descending(counts, func(n int64) int64 { return n }) {
		switch {
		case counts[k] == 0:
		case i < n:
			list = append(list, together(CleanText(k)+" "+comma(counts[k])))
		default:
			rest += counts[k]
		}
	}
	if rest > 0 {
		list = append(list, together("other "+comma(rest)))
	}
	return mostly(what, list)
}

func mostly(what string, list []string) string {
	if len(list) == 0 {
		return ""
	}
	return what + strings.Join(list, ", ")
}

// some returns a count with its noun: "1 page", "2 pages".
func some(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return comma(n) + " " + noun + "s"
}

// few is some with more words; empty if there are none.
func few(n int64, noun, words string) string {
	if n == 0 {
		return ""
	}
	return some(n, noun) + " " + words
}
