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
	Host   string `json:"host"`
	Errors int64  `json:"errors"`
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
		files := ""
		if s.Files > 0 {
			files = " and " + some(s.Files, "file")
		}
		add("fetched", fmt.Sprintf("%s, %s, from %s in %s (%s a second)", some(s.Pages, "page")+files,
			humanize.Bytes(uint64(max(s.Bytes, 0))), s.from(), s.took(), perSecond(s.PagesPerS)))
	}
	redirects, others := s.otherResponses()
	add("", mostly("", append(some0(redirects, "redirect"), most(others, 8)...)))
	add("", few(s.Duplicates, "response", "with content that the archive had already"))
	add("", few(s.Near, "page", "nearly the same as one that the archive had already"))
	add("", few(s.Truncated, "response", "cut off"))
	add("", few(s.Unkept, "response", "not archived: --keep or --obey-noarchive leaves them out"))
	add("", few(s.Refetched, "page", "of lost archives, fetched again"))
	if s.Revisits > 0 {
		add("", fmt.Sprintf("%s: %s unchanged, %s changed", some(s.Revisits, "revisit"), comma(s.Unchanged),
			comma(s.Changed)))
	}
	var failed int64
	for _, n := range s.Errors {
		failed += n
	}
	var worst []string
	for _, h := range s.Failing.Hosts {
		worst = append(worst, together(Clean(h.Host)+" ("+comma(h.Errors)+")"))
	}
	if failed > 0 {
		kinds := make(map[string]int64)
		for kind, n := range s.Errors {
			kinds[ErrorText(kind)] += n
		}
		add("failed", mostly(some(failed, "URL")+": ", most(kinds, 6)), mostly("most at ", worst))
	}
	for i, seed := range s.Failing.Seeds {
		name := ""
		if i == 0 {
			name = "no page"
		}
		add(name, "seed "+Clean(seed.URL)+" ("+CleanText(seed.Why)+")")
	}
	add("", few(s.Failing.MoreSeeds, "more seed", "without a page: see crawl.log"))
	reasons := s.reasons()
	var skipped int64
	for _, n := range reasons {
		skipped += n
	}
	add("skipped", mostly(some(skipped, "link")+": ", most(reasons, 6)))
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

func (s *Summary) took() string { return Span(time.Duration(s.DurationS * float64(time.Second))) }

// from says from how many hosts the pages are, and how many hosts the crawl visited if these are more.
func (s *Summary) from() string {
	if s.PageHosts == s.Hosts {
		return some(int64(s.Hosts), "host")
	}
	return comma(int64(s.PageHosts)) + " of " + some(int64(s.Hosts), "host")
}

// otherResponses returns the number of redirects, and the counts of all other responses that are no pages, by code and
// its words.
func (s *Summary) otherResponses() (redirects int64, others map[string]int64) {
	others = make(map[string]int64)
	for k, n := range s.Status {
		switch code, err := strconv.Atoi(k); {
		case err != nil || code < 300:
		case code < 400 && code != http.StatusNotModified:
			redirects += n
		default:
			others[strings.TrimSpace(k+" "+http.StatusText(code))] = n
		}
	}
	return redirects, others
}

// reasons returns the counts of skipped links by reason in words. All traps are one reason.
func (s *Summary) reasons() map[string]int64 {
	counts := make(map[string]int64)
	for reason, n := range s.Skipped {
		for rule, by := range s.ByRule[reason] {
			counts[ReasonText(reason, rule)] += by
			n -= by
		}
		words := cmp.Or(ReasonText(reason, ""), reason)
		if strings.HasPrefix(reason, "trap") {
			words = "looks like a trap"
		}
		counts[words] += n
	}
	forbidden := ReasonText("robotsTxt", "")
	if s.Denied > counts[forbidden] {
		counts[forbidden] = s.Denied
	}
	return counts
}

// most lists the n largest counts, and says how many kinds there are besides.
func most(counts map[string]int64, n int) (list []string) {
	rest := int64(0)
	for i, k := range descending(counts, func(n int64) int64 { return n }) {
		switch {
		case counts[k] == 0:
		case i < n:
			list = append(list, together(comma(counts[k])+" × "+CleanText(k)))
		default:
			rest++
		}
	}
	return append(list, some0(rest, "more kind")...)
}

// some0 returns some as a list, which is empty if there are none.
func some0(n int64, noun string) []string {
	if n == 0 {
		return nil
	}
	return []string{together(some(n, noun))}
}

// mostly returns a list after the text what; empty if the list is.
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
