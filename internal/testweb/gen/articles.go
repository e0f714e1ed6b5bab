package gen

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"html"
	"slices"
	"strconv"
	"strings"
)

// An Article is an article of an encyclopedia.
type Article struct {
	ID     int
	Title  string
	Topics []string
	Links  []int  // IDs of articles
	Text   string // each line is a paragraph
}

// articles are the pages of an encyclopedia, in the order of their places.
type articles []article

type article struct {
	topics      []string
	title, html string
	links       []uint32
}

// FromArticles makes a web of articles with their own links, at most MaxTruth articles. Links to articles that are
// missing are left out. The seed is the article with the most links. Of the TextSpec, Hosts, Addresses and Slugs count.
// The hosts have equally many articles each, which are chosen at random.
func FromArticles(all []Article, spec TextSpec) (*TextWeb, error) {
	if spec.Hosts == 0 {
		spec.Hosts = min(100, int64(len(all)))
	}
	if spec.Hosts < 1 || spec.Hosts > int64(len(all)) || len(all) > MaxTruth {
		return nil, fmt.Errorf("articles: hosts %d: not between 1 and the number of articles, %d, which may be %d",
			spec.Hosts, len(all), MaxTruth)
	}
	// The place of an article follows from its ID, and tells neither its title nor its topic.
	places := slices.Clone(all)
	slices.SortFunc(places, func(a, b Article) int {
		return cmp.Or(cmp.Compare(placeOf(a.ID), placeOf(b.ID)), cmp.Compare(a.ID, b.ID))
	})
	numbers := map[int]uint32{}
	for i, a := range places {
		if _, twice := numbers[a.ID]; twice {
			return nil, fmt.Errorf("articles: two of them have the id %d", a.ID)
		}
		numbers[a.ID] = uint32(i)
	}
	pages := make(articles, len(places))
	w := newTextWeb(spec, pages)
	for h := range spec.Hosts + 1 {
		w.web.division.first = append(w.web.division.first, uint32(int64(len(places))*h/spec.Hosts))
	}
	for i, a := range places {
		p := &pages[i]
		p.topics, p.title = a.Topics, html.EscapeString(a.Title)
		p.html = strings.Join(split(a.Text).html, "")
		for _, id := range a.Links {
			if to, ok := numbers[id]; ok && to != uint32(i) && !slices.Contains(p.links, to) {
				p.links = append(p.links, to)
			}
		}
		if len(p.links) > len(pages[w.seed].links) {
			w.seed = uint32(i)
		}
		w.names = append(w.names, a.Topics...)
	}
	slices.Sort(w.names)
	w.names = slices.Compact(w.names)
	return w, nil
}

func placeOf(id int) uint64 {
	h := fnv.New64a()
	h.Write([]byte(strconv.Itoa(id)))
	return mix(h.Sum64())
}

func (a articles) categories(page uint32) []string { return a[page].topics }

func (a articles) title(page uint32) string { return a[page].title }

func (a articles) appendText(dst []byte, page uint32) []byte { return append(dst, a[page].html...) }

func (a articles) appendLinks(dst []uint32, page uint32) []uint32 {
	return append(dst, a[page].links...)
}
