package topical

import (
	"errors"
	"fmt"
	"html"
	"math"
	"math/bits"
	"slices"
	"strings"
)

// A Text is a text of a category. Each of its lines is a paragraph.
type Text struct {
	Category string
	Text     string // in UTF-8
}

// A Spec describes a generated web. The zero value of each field means its default.
type Spec struct {
	Seed uint64
	// Pages is the number of pages. Zero means 1,000,000.
	Pages int64
	// Hosts is the number of hosts, whose sizes follow a power law. Zero means one for 100 pages.
	Hosts int64
	// Links is the mean number of links of a page. Zero means 12.
	Links int
	// Locality is the share of the links that lead to a page of the same category. Zero means 0.624, the topic locality
	// that the paper on X4 measured with Naive Bayes (section 5). Negative means 0.
	Locality float64
	// Mix is the share of the pages of a host that do not have the host's main category. Zero means 0.4; negative means
	// 0.
	Mix float64
	// Local is the share of the links within the host. Zero means 0.4; negative means 0.
	Local float64
	// Addresses is the number of addresses that all hosts share in turn. Zero gives each host its own.
	Addresses int64
	// Slugs puts the words of the titles into the URLs.
	Slugs bool
}

const (
	maxPages = 1 << 31
	// minWords and maxWords bound the length that a page's text must have at least; it ends with the paragraph that
	// reaches it.
	minWords, maxWords = 60, 300
	titleWords         = 4
	// children is the number of links of a page in the tree of its host, and of a host in the tree of all hosts.
	children = 4
)

// ErrTexts reports texts from which no web can be made.
var ErrTexts = errors.New("texts of pages")

func (s Spec) withDefaults() (Spec, error) {
	def := func(field *float64, value float64) {
		if *field == 0 {
			*field = value
		}
		*field = max(*field, 0)
	}
	def(&s.Locality, 0.624)
	def(&s.Mix, 0.4)
	def(&s.Local, 0.4)
	if s.Pages == 0 {
		s.Pages = 1_000_000
	}
	if s.Hosts == 0 {
		s.Hosts = max(1, s.Pages/100)
	}
	if s.Links == 0 {
		s.Links = 12
	}
	switch {
	case s.Pages < 1 || s.Pages > maxPages:
		return s, fmt.Errorf("pages %d: not between 1 and %d", s.Pages, int64(maxPages))
	case s.Hosts < 1 || s.Hosts > s.Pages:
		return s, fmt.Errorf("hosts %d: not between 1 and the number of pages", s.Hosts)
	case s.Links < 2 || s.Links > 1000:
		return s, fmt.Errorf("links %d: not between 2 and 1000", s.Links)
	case !(s.Locality <= 1 && s.Mix <= 1 && s.Local <= 1):
		return s, errors.New("a share is above 1")
	}
	return s, nil
}

// paragraphs are a text as it is sent.
type paragraphs struct {
	html  []string // with its tags
	words []int
	title []string
}

// generated are the pages of a generated web.
type generated struct {
	w     *Web
	spec  Spec
	texts [][]paragraphs // by category
	names [][]string     // one category each
	same  float64        // the share of the links that are not of the tree and lead to the same category
}

// Generate makes a web whose pages have texts of their category: paragraphs that follow each other in a text, from a
// random one on, and if these are too few then those of further texts. Links lead to other categories with the rest of
// Locality. Each page is linked by a page of its host, and the first page of each host by that of another host.
func Generate(spec Spec, texts []Text) (*Web, error) {
	spec, err := spec.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("topical web: %w", err)
	}
	g := &generated{spec: spec}
	by := map[string][]paragraphs{}
	for _, t := range texts {
		if p := split(t.Text); len(p.html) > 0 {
			by[t.Category] = append(by[t.Category], p)
		}
	}
	w := &Web{pages: g, addresses: spec.Addresses, slugs: spec.Slugs}
	for c := range by {
		w.names = append(w.names, c)
	}
	if slices.Sort(w.names); len(w.names) < 2 || len(w.names) > 1<<16 {
		return nil, fmt.Errorf("topical web: %w: they have %d categories; 2 to %d are needed", ErrTexts, len(w.names),
			1<<16)
	}
	for _, c := range w.names {
		g.texts = append(g.texts, by[c])
		g.names = append(g.names, []string{c})
	}
	g.w = w
	w.first = g.divide()
	// Of the links of a page, one on average is of the tree, whatever its category.
	others := float64(len(w.names) - 1)
	tree := (1-spec.Mix)*(1-spec.Mix) + spec.Mix*spec.Mix/others
	g.same = (spec.Locality*float64(spec.Links) - tree) / float64(spec.Links-1)
	return w, nil
}

// split makes the paragraphs of a text. Lines without a letter are left out.
func split(text string) (p paragraphs) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 || !strings.ContainsFunc(line, isLetter) {
			continue
		}
		p.html = append(p.html, "<p>"+html.EscapeString(strings.Join(words, " "))+"</p>\n")
		p.words = append(p.words, len(words))
		p.title = append(p.title, html.EscapeString(strings.Join(words[:min(titleWords, len(words))], " ")))
	}
	return p
}

func isLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= 0x80 }

// divide gives each host its pages. The sizes have a Pareto distribution with the exponent 4/3, each quantile once, in
// a random order; the largest host has at most a hundredth of all pages, or 1.
func (g *generated) divide() []uint32 {
	n := int(g.spec.Hosts)
	sizes, sum := make([]float64, n), 0.0
	for i := range sizes {
		root := math.Sqrt(float64(n) / (float64(i) + 0.5))
		sizes[i] = root * math.Sqrt(root)
		sum += sizes[i]
	}
	extra := float64(g.spec.Pages) - float64(n) // each host has one page
	most := max(1, extra/100)
	for i := n - 1; i > 0; i-- {
		j := int(below(g.hash(saltHost, uint64(i), 0), uint64(i+1)))
		sizes[i], sizes[j] = sizes[j], sizes[i]
	}
	first := make([]uint32, n+1)
	at, due := int64(0), 0.0
	for i, s := range sizes {
		due += min(s/sum*extra, most)
		first[i] = uint32(at)
		at = int64(i+1) + int64(math.Round(due))
	}
	first[n] = uint32(at)
	// What the bound took from the largest hosts goes to all hosts alike.
	if missing := g.spec.Pages - at; missing > 0 {
		for i := range first {
			first[i] += uint32(missing * int64(i) / int64(n))
		}
	}
	first[n] = uint32(g.spec.Pages)
	return first
}

// The salts make choices independent that depend on the same numbers.
const (
	saltHost = iota + 1
	saltMain
	saltPage
	saltText
	saltLinks
)

// golden is 2^64 divided by the golden ratio, made odd: the step of splitmix64 (Steele, Lea, Flood, OOPSLA 2014).
const golden = 0x9e3779b97f4a7c15

func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// hash returns a random number that is a function of the web's seed, a salt and two numbers.
func (g *generated) hash(salt int, a, b uint64) uint64 {
	return mix(mix(mix(g.spec.Seed+golden)+uint64(salt)*golden+a*0xd6e8feb86659fd93) + b*golden)
}

// below maps a random number to 0..n-1.
func below(x, n uint64) uint64 {
	hi, _ := bits.Mul64(x, n)
	return hi
}

// hit reports whether a random number is in a share of all numbers.
func hit(x uint64, share float64) bool { return float64(x>>11)/(1<<53) < share }

// topic returns the category of a page of a host.
func (g *generated) topic(host int64, page uint32) int {
	n := uint64(len(g.texts))
	main := below(g.hash(saltMain, uint64(host), 0), n)
	if !hit(g.hash(saltPage, uint64(page), 0), g.spec.Mix) {
		return int(main)
	}
	return int((main + 1 + below(g.hash(saltPage, uint64(page), 1), n-1)) % n)
}

func (g *generated) topicOf(page uint32) int { return g.topic(g.w.hostOf(page), page) }

func (g *generated) categories(page uint32) []string { return g.names[g.topicOf(page)] }

// start returns the first text of a page, and its first paragraph.
func (g *generated) start(page uint32) (topic, text, paragraph int) {
	topic = g.topicOf(page)
	text = int(below(g.hash(saltText, uint64(page), 0), uint64(len(g.texts[topic]))))
	paragraph = int(below(g.hash(saltText, uint64(page), 1), uint64(len(g.texts[topic][text].html))))
	return topic, text, paragraph
}

func (g *generated) title(page uint32) string {
	c, t, p := g.start(page)
	return g.texts[c][t].title[p]
}

func (g *generated) appendText(dst []byte, page uint32) []byte {
	c, t, from := g.start(page)
	least := minWords + int(below(g.hash(saltText, uint64(page), 2), maxWords-minWords+1))
	for n, more := 0, uint64(3); n < least; more++ {
		text := &g.texts[c][t]
		for i := 0; i < len(text.html) && n < least; i++ {
			j := (from + i) % len(text.html)
			dst = append(dst, text.html[j]...)
			n += text.words[j]
		}
		t, from = int(below(g.hash(saltText, uint64(page), more), uint64(len(g.texts[c])))), 0
	}
	return dst
}

func (g *generated) whole() bool { return true }

// tries bounds the search for a page of a category.
const tries = 256

// appendLinks appends the links of the tree, and then others.
func (g *generated) appendLinks(dst []uint32, page uint32) []uint32 {
	at := len(dst)
	host := g.w.hostOf(page)
	first, size := g.w.first[host], uint64(g.w.first[host+1]-g.w.first[host])
	for i := range uint64(children) {
		if n := uint64(page-first)*children + 1 + i; n < size {
			dst = append(dst, first+uint32(n))
		}
		if h := uint64(host)*children + 1 + i; page == first && h < uint64(g.spec.Hosts) {
			dst = append(dst, g.w.first[h])
		}
	}
	tree := len(dst) - at
	topic := g.topic(host, page)
	// A page has half to one and a half times as many links as the mean, which has one of the tree.
	n := g.spec.Links/2 + int(below(g.hash(saltLinks, uint64(page), 0), uint64(g.spec.Links))) - 1
	for i := range max(n, 1) {
		x := g.hash(saltLinks, uint64(page), uint64(i)+1)
		same, local := hit(x, g.same), hit(mix(x+1), g.spec.Local)
		for try := range uint64(tries) {
			h, to := host, uint32(0)
			if y := mix(x + golden*(try+2)); local && try < tries/4 {
				to = first + uint32(below(y, size))
			} else {
				to = uint32(below(y, uint64(g.spec.Pages)))
				h = g.w.hostOf(to)
			}
			if to != page && (g.topic(h, to) == topic) == same && !slices.Contains(dst[at:], to) {
				dst = append(dst, to)
				break
			}
		}
	}
	// The links of the tree stand among the others: their place tells nothing.
	for i := range tree {
		j := at + int(below(mix(g.hash(saltLinks, uint64(page), uint64(i)+1)), uint64(len(dst)-at)))
		dst[at+i], dst[j] = dst[j], dst[at+i]
	}
	return dst
}
