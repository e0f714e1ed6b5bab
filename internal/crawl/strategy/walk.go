package strategy

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// WalkConfig tunes a Walk.
type WalkConfig struct {
	// Walkers walk side by side. Zero means 16.
	Walkers int
	// Steps bounds the steps of all walkers together. Zero means 100,000.
	Steps int
	// Jump is the probability that a step leads back to a seed instead of
	// along a link. Zero means 0.15, the complement of PageRank's usual
	// damping; negative means 0.
	Jump float64
	// Seed makes the walk repeatable.
	Seed uint64
}

func (c WalkConfig) withDefaults() WalkConfig {
	if c.Walkers <= 0 {
		c.Walkers = 16
	}
	if c.Steps <= 0 {
		c.Steps = 100_000
	}
	switch {
	case c.Jump == 0:
		c.Jump = 0.15
	case c.Jump < 0:
		c.Jump = 0
	}
	return c
}

// A Walk samples the web by random walks (Henzinger, Heydon, Mitzenmacher and
// Najork, "On near-uniform URL sampling", WWW 2000): each step follows a link
// of the page, chosen at random, or jumps back to a seed, likewise. So a page
// is visited as often, in the long run, as its PageRank personalised to the
// seeds says: what walk.csv counts is a sample weighted by it. Who wants a
// sample that is nearly uniform draws pages from it with the inverse of their
// counts, as the paper does.
//
// A visit to a page that was fetched before counts, but costs the server
// nothing: the links of a page are kept, and a walker goes on from them. From a
// page without links, and from one that could not be fetched, it jumps. A
// redirect is a step, but not a visit.
//
// Chance is a function of Config.Seed, the walker and the step. A walker's way
// thus follows from the pages alone, however fast they come, and is found again
// from their links after a kill: no position is ever written down.
//
// A page takes some 80 bytes of RAM, and its links, up to 4,096, on disk.
type Walk struct {
	cfg WalkConfig
	Place
	links   disk.File // what is remembered of each page, behind its Link
	size    int64
	pages   map[weburl.Key]*stop
	walkers []walker
	ready   []int                // of them: who can go on
	waiting map[weburl.Key][]int // for a page
	enc     []byte
}

// A stop is where a walker can be.
type stop struct {
	at     int64 // in links
	n      uint32
	visits uint32
	kind   byte
}

const (
	stopDead     byte = iota // nothing leads on
	stopPage                 // 2xx
	stopRedirect             // to its only link
)

type walker struct {
	at    weburl.Link
	steps int // made
	bound int
}

// maxLinks is how many links of a page can be followed: the first ones.
const maxLinks = 4096

// OpenWalk makes one whose walkers have not set out.
func OpenWalk(at Place, cfg WalkConfig) (*Walk, error) {
	if err := at.clear(); err != nil {
		return nil, err
	}
	w := &Walk{cfg: cfg.withDefaults(), Place: at, pages: map[weburl.Key]*stop{}, waiting: map[weburl.Key][]int{}}
	var err error
	if w.links, err = at.FS.OpenFile(filepath.Join(at.Dir, "links"), os.O_RDWR|os.O_CREATE|os.O_TRUNC,
		0o644); err != nil {
		return nil, fmt.Errorf("walk: %w", err)
	}
	if len(at.Seeds) == 0 {
		return w, nil
	}
	for i := range w.cfg.Walkers {
		bound := w.cfg.Steps / w.cfg.Walkers
		if i < w.cfg.Steps%w.cfg.Walkers {
			bound++
		}
		w.walkers = append(w.walkers, walker{bound: bound})
		w.jump(&w.walkers[i], w.chance(i, 0, 1))
		w.ready = append(w.ready, i)
	}
	return w, nil
}

// Close deletes the file of links.
func (w *Walk) Close() error {
	err := w.links.Close()
	if rerr := w.FS.RemoveAll(w.Dir); err == nil {
		err = rerr
	}
	return err
}

// Follow implements crawl.Strategy: links are for the walkers to choose from.
// What a page needs to be shown is taken, if it was asked for.
func (w *Walk) Follow(_ *crawl.Page, l *weburl.Link) crawl.Choice {
	switch l.Hops[len(l.Hops)-1] {
	case 'E':
		return crawl.Take
	case 'M':
		return crawl.Drop
	}
	return crawl.Offer
}

// stateWalk begins what Walk remembers; it is also its version.
const stateWalk = 'W'

// appendStop encodes what is remembered of a page:
//
//	byte     'W'
//	byte     kind: 0 nothing leads on, 1 page, 2 redirect
//	the links, each: uvarint octets in common with the one before,
//	         uvarint length of the rest, the rest
func appendStop(b []byte, kind byte, links []weburl.Link) []byte {
	b = append(b, stateWalk, kind)
	before := ""
	for _, l := range links[:min(len(links), maxLinks)] {
		s, n := l.URL.String(), 0
		for n < len(s) && n < len(before) && s[n] == before[n] {
			n++
		}
		b = binary.AppendUvarint(b, uint64(n))
		b = appendString(b, s[n:])
		before = s
	}
	return b
}

// decodeStop reads it; each, if it is not nil, is shown the links one by one,
// in memory that is used again.
func decodeStop(b []byte, each func(i int, url []byte)) (kind byte, n int, err error) {
	d := decoder{b: b}
	if d.byte() != stateWalk {
		return 0, 0, errState
	}
	kind = d.byte()
	var url []byte
	for ; len(d.b) > 0; n++ {
		common := d.uvarint()
		rest := d.uvarint()
		if common > uint64(len(url)) || rest > uint64(len(d.b)) || common+rest > weburl.MaxParse || n == maxLinks {
			return 0, 0, errState
		}
		url = append(url[:common], d.bytes(int(rest))...)
		if each != nil {
			each(n, url)
		}
	}
	if d.bad || kind > stopRedirect || kind == stopRedirect && n != 1 || kind == stopDead && n != 0 {
		return 0, 0, errState
	}
	return kind, n, nil
}

// Visited implements crawl.Planner.
func (w *Walk) Visited(v *crawl.Visit) ([]byte, error) {
	kind, links := stopDead, v.Offered
	switch {
	case v.Outcome != crawl.Fetched:
		links = nil
	case v.Status/100 == 2:
		kind = stopPage
	case v.Status/100 == 3 && len(links) == 1:
		kind = stopRedirect
	default:
		links = nil
	}
	w.enc = appendStop(w.enc[:0], kind, links)
	return w.enc, w.arrive(v.Link, w.enc)
}

// Restore implements crawl.Planner.
func (w *Walk) Restore(l weburl.Link, state []byte) error { return w.arrive(l, state) }

// Retry implements crawl.Retrier: the walkers wait for u once more.
func (w *Walk) Retry(u weburl.URL) { delete(w.pages, u.Key()) }

// arrive takes a page in, and wakes those who wait for it.
func (w *Walk) arrive(l weburl.Link, state []byte) error {
	kind, n, err := decodeStop(state, nil)
	if err != nil {
		return err
	}
	k := l.URL.Key()
	l.Via = ""
	rec := append(l.AppendTo(nil), state...)
	rec = append(binary.AppendUvarint(nil, uint64(len(rec))), rec...)
	if _, err := w.links.Write(rec); err != nil {
		return fmt.Errorf("walk: %w", err)
	}
	s := w.pages[k]
	if s == nil {
		s = &stop{}
		w.pages[k] = s
	}
	s.at, s.n, s.kind = w.size, uint32(n), kind
	w.size += int64(len(rec))
	w.ready = append(w.ready, w.waiting[k]...)
	delete(w.waiting, k)
	return nil
}

// atOnce is how many steps are made before the crawl has its turn again.
const atOnce = 200

// Next implements crawl.Planner: walkers go on as far as pages are known.
func (w *Walk) Next(now time.Time) (*crawl.Wanted, time.Time, error) {
	for range atOnce {
		if len(w.ready) == 0 {
			return nil, time.Time{}, nil
		}
		i := w.ready[len(w.ready)-1]
		p := &w.walkers[i]
		if p.steps == p.bound {
			w.ready = w.ready[:len(w.ready)-1]
			continue
		}
		k := p.at.URL.Key()
		s := w.pages[k]
		if s == nil {
			w.ready = w.ready[:len(w.ready)-1]
			first := len(w.waiting[k]) == 0
			w.waiting[k] = append(w.waiting[k], i)
			if !first {
				continue
			}
			return &crawl.Wanted{Link: p.at}, time.Time{}, nil
		}
		if s.kind == stopPage {
			s.visits++
		}
		p.steps++
		if err := w.step(i, p, s); err != nil {
			return nil, time.Time{}, err
		}
	}
	return nil, now, nil
}

// step leads a walker from s to where it is next.
func (w *Walk) step(i int, p *walker, s *stop) error {
	if s.n == 0 || s.kind == stopPage && float64(w.chance(i, p.steps, 0)>>11)/(1<<53) < w.cfg.Jump {
		w.jump(p, w.chance(i, p.steps, 1))
		return nil
	}
	choice := int(w.chance(i, p.steps, 2) % uint64(s.n))
	from, state, err := w.read(s.at)
	if err != nil {
		return err
	}
	var to string
	if _, _, err := decodeStop(state, func(i int, url []byte) {
		if i == choice {
			to = string(url)
		}
	}); err != nil {
		return fmt.Errorf("walk: links at %d: %w", s.at, err)
	}
	u, err := weburl.Parse(to)
	if err != nil {
		return fmt.Errorf("walk: links at %d: %q: %w", s.at, to, err)
	}
	// The way to a page is as long as the walk; what is told of it is its end,
	// and how often in a row it was a redirect, which the crawl bounds.
	hops := "L"
	if s.kind == stopRedirect {
		hops = from.Hops + "R"
	}
	p.at = weburl.Link{URL: u, Via: from.URL.String(), Hops: hops, Seed: from.Seed}
	return nil
}

func (w *Walk) jump(p *walker, chance uint64) {
	u := w.Seeds[chance%uint64(len(w.Seeds))]
	p.at = weburl.Link{URL: u, Seed: u.Host()}
}

// chance is a number that looks random.
func (w *Walk) chance(walker, step, what int) uint64 {
	var b [32]byte
	for i, n := range [...]uint64{w.cfg.Seed, uint64(walker), uint64(step), uint64(what)} {
		binary.LittleEndian.PutUint64(b[8*i:], n)
	}
	return xxhash.Sum64(b[:])
}

// read is what the file has at a place.
func (w *Walk) read(at int64) (l weburl.Link, state []byte, err error) {
	fail := func(err error) (weburl.Link, []byte, error) {
		return l, nil, fmt.Errorf("walk: links at %d: %w", at, err)
	}
	var head [binary.MaxVarintLen64]byte
	k, err := w.links.ReadAt(head[:], at)
	if err != nil && err != io.EOF {
		return fail(err)
	}
	n, m := binary.Uvarint(head[:k])
	if m <= 0 || n > uint64(w.size-at-int64(m)) {
		return fail(errState)
	}
	b := make([]byte, n)
	if k, err := w.links.ReadAt(b, at+int64(m)); k < len(b) {
		return fail(err)
	}
	l, used, err := weburl.DecodeLink(b)
	if err != nil {
		return fail(err)
	}
	return l, b[used:], nil
}

// WriteReport writes walk.csv: the sample. Pages stand in the order in which
// they were fetched; visits is how often walkers came by, share the part of all
// visits, which estimates PageRank, and links how many there were to choose from.
func (w *Walk) WriteReport(fs disk.FS, dir string) error {
	var all uint64
	for _, s := range w.pages {
		all += uint64(s.visits)
	}
	var broken error
	err := report.WriteTable(fs, filepath.Join(dir, "walk.csv"), func(row func(...string)) {
		row("url", "visits", "share", "links")
		for at := int64(0); at < w.size; {
			l, state, err := w.read(at)
			if err != nil {
				broken = err
				return
			}
			n := len(l.AppendTo(nil)) + len(state)
			s := w.pages[l.URL.Key()]
			if s != nil && s.at == at && s.visits > 0 {
				share := strconv.FormatFloat(float64(s.visits)/math.Max(float64(all), 1), 'g', 6, 64)
				row(l.URL.String(), strconv.Itoa(int(s.visits)), share, strconv.Itoa(int(s.n)))
			}
			at += int64(n + len(binary.AppendUvarint(nil, uint64(n))))
		}
	})
	if err == nil {
		err = broken
	}
	return err
}
