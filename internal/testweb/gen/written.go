package gen

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// A Text is a text of a category. Each of its lines is a paragraph.
type Text struct {
	Category string
	Text     string // in UTF-8
}

const (
	// minWords and maxWords bound the length that a page's text must have at least; it ends with the paragraph that
	// reaches it.
	minWords, maxWords = 60, 300
	titleWords         = 4
	// children is the number of links of a page in the tree of its host, and of a host in the tree of all hosts.
	children = 4
)

// paragraphs are a text as it is sent.
type paragraphs struct {
	html  []string // with its tags
	words []int
	title []string
}

// written are pages that are made of given texts.
type written struct {
	w     *Web
	spec  TextSpec
	texts [][]paragraphs // by category
	names [][]string     // one category each
	// The bounds of hashes (see hit) for the shares of TextSpec. same is the share of the links that lead to the same
	// category, without those of the tree.
	mixed, local, same uint64
}

// FromTexts makes a web whose pages have texts of their category: paragraphs that follow each other in a text, from a
// random one on, and if these are too few then those of further texts. Links lead to other categories with the rest of
// Locality. Each page is linked by a page of its host, and the first page of each host by that of another host.
func FromTexts(spec TextSpec, texts []Text) (*TextWeb, error) {
	spec, err := spec.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("web of texts: %w", err)
	}
	g := &written{spec: spec, mixed: share(spec.Mix), local: share(spec.Local)}
	by := map[string][]paragraphs{}
	for _, t := range texts {
		if p := split(t.Text); len(p.html) > 0 {
			by[t.Category] = append(by[t.Category], p)
		}
	}
	w := newTextWeb(spec, g)
	g.w, w.whole = w.web, true
	for c := range by {
		w.names = append(w.names, c)
	}
	if slices.Sort(w.names); len(w.names) < 2 || len(w.names) > 1<<16 {
		return nil, fmt.Errorf("web of texts: %w: they have %d categories; 2 to %d are needed", ErrTexts, len(w.names),
			1<<16)
	}
	for _, c := range w.names {
		g.texts = append(g.texts, by[c])
		g.names = append(g.names, []string{c})
	}
	g.w.division.first = g.divide()
	// Of the links of a page, one on average is of the tree, whatever its category.
	others := float64(len(w.names) - 1)
	tree := (1-spec.Mix)*(1-spec.Mix) + spec.Mix*spec.Mix/others
	g.same = share((spec.Locality*float64(spec.Links) - tree) / float64(spec.Links-1))
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
func (g *written) divide() []uint32 {
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
		j := int(below(g.w.hash(saltSize, int64(i), 0), uint64(i+1)))
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

// The salts of a web with given texts. It makes no choice that has the same salt in other webs.
const (
	saltHostTopic salt = iota + 2
	saltPageTopic
	saltText
	saltTextLinks
)

// topic returns the category of a page of a host.
func (g *written) topic(host int64, page uint32) int {
	n := uint64(len(g.texts))
	main := below(g.w.hash(saltHostTopic, host, 0), n)
	if !hit(g.w.hash(saltPageTopic, int64(page), 0), g.mixed) {
		return int(main)
	}
	return int((main + 1 + below(g.w.hash(saltPageTopic, int64(page), 1), n-1)) % n)
}

func (g *written) topicOf(page uint32) int {
	host, _ := g.w.division.place(page)
	return g.topic(host, page)
}

func (g *written) categories(page uint32) []string { return g.names[g.topicOf(page)] }

// start returns the first text of a page, and its first paragraph.
func (g *written) start(page uint32) (topic, text, paragraph int) {
	topic = g.topicOf(page)
	text = int(below(g.w.hash(saltText, int64(page), 0), uint64(len(g.texts[topic]))))
	paragraph = int(below(g.w.hash(saltText, int64(page), 1), uint64(len(g.texts[topic][text].html))))
	return topic, text, paragraph
}

func (g *written) title(page uint32) string {
	c, t, p := g.start(page)
	return g.texts[c][t].title[p]
}

func (g *written) appendText(dst []byte, page uint32) []byte {
	c, t, from := g.start(page)
	least := minWords + int(below(g.w.hash(saltText, int64(page), 2), maxWords-minWords+1))
	for n, more := 0, int64(3); n < least; more++ {
		text := &g.texts[c][t]
		for i := 0; i < len(text.html) && n < least; i++ {
			j := (from + i) % len(text.html)
			dst = append(dst, text.html[j]...)
			n += text.words[j]
		}
		t, from = int(below(g.w.hash(saltText, int64(page), more), uint64(len(g.texts[c])))), 0
	}
	return dst
}

// tries bounds the search for a page of a category.
const tries = 256

// appendLinks appends the links of the tree, and then others.
func (g *written) appendLinks(dst []uint32, page uint32) []uint32 {
	at := len(dst)
	d := &g.w.division
	host, number := d.place(page)
	first, size := d.first[host], g.w.sizeOf(host)
	for i := range int64(children) {
		if n := number*children + 1 + i; n < size {
			dst = append(dst, first+uint32(n))
		}
		if h := host*children + 1 + i; number == 0 && h < g.spec.Hosts {
			dst = append(dst, d.first[h])
		}
	}
	tree := len(dst) - at
	topic := g.topic(host, page)
	// A page has half to one and a half times as many links as the mean, which has one of the tree.
	n := g.spec.Links/2 + int(below(g.w.hash(saltTextLinks, int64(page), 0), uint64(g.spec.Links))) - 1
	for i := range max(n, 1) {
		x := g.w.hash(saltTextLinks, int64(page), int64(i)+1)
		same, local := hit(x, g.same), hit(mix(x+1), g.local)
		for try := range uint64(tries) {
			h, to := host, uint32(0)
			if y := mix(x + golden*(try+2)); local && try < tries/4 {
				to = first + uint32(below(y, uint64(size)))
			} else {
				to = uint32(below(y, uint64(g.spec.Pages)))
				h, _ = d.place(to)
			}
			if to != page && (g.topic(h, to) == topic) == same && !slices.Contains(dst[at:], to) {
				dst = append(dst, to)
				break
			}
		}
	}
	// The links of the tree stand among the others: their place tells nothing.
	for i := range tree {
		j := at + int(below(mix(g.w.hash(saltTextLinks, int64(page), int64(i)+1)), uint64(len(dst)-at)))
		dst[at+i], dst[j] = dst[j], dst[at+i]
	}
	return dst
}
