package strategy

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/fields"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// WalkConfig tunes a Walk.
type WalkConfig struct {
	// Walkers is the number of walks side by side. Zero means 16.
	Walkers int
	// Steps bounds the steps of all walkers together. Zero means 100,000.
	Steps int
	// Jump is the probability that a step leads back to a seed instead of
	// along a link. Zero means 0.15, the complement of PageRank's usual
	// damping; negative means 0.
	Jump float64
	// Seed is the random seed. The same Seed, pages and start URLs give the same walks.
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

// A Walk samples the web by random walks (Henzinger, Heydon, Mitzenmacher and Najork, "On
// near-uniform URL sampling", WWW 2000). Each step of a walker follows a random link of the
// page or jumps back to a random seed. In the long run, the share of the visits to a page
// is its PageRank, personalised to the seeds. So the counts in walk.csv are a sample of the
// web, weighted by PageRank. For a nearly uniform sample, draw pages from it with a
// probability inverse to their counts, as the paper does.
//
// A visit to a page that was fetched before counts, but causes no request: the Walk keeps
// the links of each page. From a page without links, and from a page that could not be
// fetched, a walker jumps. A redirect is a step, but not a visit.
//
// Each random choice is a function of Config.Seed, the walker and the step. So the way of a
// walker depends on the pages alone, not on how fast they arrive. After a kill, the Walk
// computes the way again from the links in the journal. It never stores a position.
//
// In a cluster each walker is a task of one agent, its driver (see visit.Sharer). The driver asks
// the other agents for the links of their pages. So the visits of all drivers together are those of
// a single agent. If a walker gets another driver, that one starts it at step 0, and computes its
// way again.
//
// A page takes about 80 bytes of RAM. On disk it takes up to 4,096 links, but at most 64 KiB.
// It implements visit.Planner.
type Walk struct {
	cfg WalkConfig
	Place
	links   disk.File // for each page: length, Link, encoded stop
	size    int64     // of links
	pages   map[link.Key]*stop
	walkers []walker
	ready   []int              // indexes of the walkers that can go on
	waiting map[link.Key][]int // indexes of the walkers that wait for a page
	enc     []byte             // reused by Visited
}

// A stop is a page that a walker can visit, as the Walk knows it.
type stop struct {
	at     int64  // offset in links; unknownStop: no agent knows the page
	n      uint32 // number of links
	visits uint32
	kind   byte
}

const (
	stopDead     byte = iota // no link to follow
	stopPage                 // a 2xx response
	stopRedirect             // a redirect to the only link
)

// unknownStop is the offset of a finished page whose links no agent knows.
const unknownStop = -1

type walker struct {
	at    link.Link // where it is
	steps int       // made so far
	bound int       // of steps
	mine  bool      // this agent drives it
}

// maxLinks bounds the links of a page that a walker may follow: the first ones, whose encoding has at
// most crawl.MaxState bytes.
const maxLinks = 4096

// OpenWalk returns a Walk whose walkers start at random seeds. It deletes the files in
// at.Dir.
func OpenWalk(at Place, cfg WalkConfig) (*Walk, error) {
	if err := at.clear(); err != nil {
		return nil, err
	}
	w := &Walk{cfg: cfg.withDefaults(), Place: at, pages: map[link.Key]*stop{}, waiting: map[link.Key][]int{}}
	// The order in which the seeds were given must not change the walks.
	w.Seeds = slices.SortedFunc(slices.Values(at.Seeds), func(a, b weburl.URL) int {
		return strings.Compare(a.String(), b.String())
	})
	w.Seeds = slices.Compact(w.Seeds)
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
		w.begin(i)
	}
	return w, nil
}

// begin puts walker i to step 0.
func (w *Walk) begin(i int) {
	p := &w.walkers[i]
	p.mine, p.steps = true, 0
	w.jump(p, w.chance(i, 0, 1))
	w.ready = append(w.ready, i)
}

// Terms returns the configuration as text. Agents of a cluster compare it.
func (w *Walk) Terms() string {
	return fmt.Sprintf("of %d walkers, %d steps, jump %g, random seed %d", w.cfg.Walkers, w.cfg.Steps, w.cfg.Jump,
		w.cfg.Seed)
}

// StartURLs identifies the seeds. Agents of a cluster compare it, because walkers jump to all seeds.
func (w *Walk) StartURLs() string {
	var d xxhash.Digest
	d.Reset()
	for _, u := range w.Seeds {
		d.WriteString(u.String() + "\n")
	}
	return fmt.Sprintf("%d URLs, digest %016x", len(w.Seeds), d.Sum64())
}

// Close deletes the file of links.
func (w *Walk) Close() error {
	err := w.links.Close()
	if rerr := w.FS.RemoveAll(w.Dir); err == nil {
		err = rerr
	}
	return err
}

// Follow implements visit.Strategy. It offers links to the walkers, takes embedded files if
// the crawl fetches requisites, and drops the URLs of sitemaps.
func (w *Walk) Follow(_ *visit.Page, l *link.Link) visit.Choice {
	switch l.Hops[len(l.Hops)-1] {
	case 'E':
		return visit.Take
	case 'M':
		return visit.Drop
	}
	return visit.Offer
}

// stateWalk is the first byte of an encoded stop and tells its version.
const stateWalk = 'W'

// appendStop appends the encoding of a page and its links to b:
//
//	byte     'W'
//	byte     kind: 0 no link to follow, 1 page, 2 redirect
//	the links, each: uvarint bytes in common with the link before,
//	         uvarint length of the rest, the rest
func appendStop(b []byte, kind byte, links []link.Link) []byte {
	b = append(b, stateWalk, kind)
	before := ""
	for _, l := range links[:min(len(links), maxLinks)] {
		s, n := l.URL.String(), 0
		for n < len(s) && n < len(before) && s[n] == before[n] {
			n++
		}
		if len(b)+len(s)-n+2*binary.MaxVarintLen32 > visit.MaxState {
			break
		}
		b = binary.AppendUvarint(b, uint64(n))
		b = append(binary.AppendUvarint(b, uint64(len(s)-n)), s[n:]...)
		before = s
	}
	return b
}

// decodeStop reads what appendStop wrote. If each is not nil, decodeStop calls it with each
// link; url is valid during the call. The error is errState.
func decodeStop(b []byte, each func(i int, url []byte)) (kind byte, n int, err error) {
	c := fields.Read(b)
	c.Tag(stateWalk)
	fields.Byte(c, &kind)
	var url, rest []byte
	for ; c.Left() > 0; n++ {
		var common int
		fields.Uint(c, &common)
		c.Check(common >= 0 && common <= len(url) && n < maxLinks)
		fields.Text(c, &rest, weburl.MaxParse-common)
		if !c.Ok() {
			return 0, 0, errState
		}
		url = append(url[:common], rest...)
		if each != nil {
			each(n, url)
		}
	}
	if !c.Ok() || kind > stopRedirect || kind == stopRedirect && n != 1 || kind == stopDead && n != 0 {
		return 0, 0, errState
	}
	return kind, n, nil
}

// Visited implements visit.Planner. A page keeps its first links.
func (w *Walk) Visited(v *visit.Visit) ([]byte, error) {
	kind, links := stopDead, v.Offered
	switch {
	case v.Plain && len(links) == 1:
		kind = stopRedirect
	case v.Outcome != visit.Fetched:
		links = nil
	case v.Status/100 == 2:
		kind = stopPage
	case v.Status/100 == 3 && len(links) == 1:
		kind = stopRedirect
	default:
		links = nil
	}
	if _, known, err := w.Recall(v.Link.URL); known != nil || err != nil {
		return known, err
	}
	w.enc = appendStop(w.enc[:0], kind, links)
	if kind == stopRedirect && len(w.enc) == 2 { // its target is too long
		w.enc[1] = stopDead
	}
	return w.enc, w.arrive(v.Link, w.enc)
}

func (w *Walk) Restore(l link.Link, state []byte) error {
	if s := w.pages[link.KeyOf(l.URL)]; s != nil && s.at != unknownStop {
		return nil
	}
	return w.arrive(l, state)
}

// Retry implements visit.Retrier: walkers that come to u wait for another fetch of it.
func (w *Walk) Retry(u weburl.URL) { delete(w.pages, link.KeyOf(u)) }

// arrive adds a page, and makes the walkers that wait for it ready.
func (w *Walk) arrive(l link.Link, state []byte) error {
	kind, n, err := decodeStop(state, nil)
	if err != nil {
		return err
	}
	k := link.KeyOf(l.URL)
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
	w.goOn(k)
	return nil
}

// goOn makes the walkers ready that wait for a page.
func (w *Walk) goOn(k link.Key) {
	w.ready = append(w.ready, w.waiting[k]...)
	delete(w.waiting, k)
}

// atOnce bounds the steps of a call of Next, so that the dispatcher can do other work.
const atOnce = 200

// Next implements visit.Planner. It moves walkers over known pages until one needs a page
// that the crawl has to fetch.
func (w *Walk) Next(now time.Time) (*visit.Wanted, time.Time, error) {
	for range atOnce {
		if len(w.ready) == 0 {
			return nil, time.Time{}, nil
		}
		i := w.ready[len(w.ready)-1]
		p := &w.walkers[i]
		if p.steps == p.bound || !p.mine {
			w.ready = w.ready[:len(w.ready)-1]
			continue
		}
		k := link.KeyOf(p.at.URL)
		s := w.pages[k]
		if s == nil {
			w.ready = w.ready[:len(w.ready)-1]
			first := len(w.waiting[k]) == 0
			w.waiting[k] = append(w.waiting[k], i)
			if !first {
				continue
			}
			return &visit.Wanted{Link: p.at}, time.Time{}, nil
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

// step moves walker i from s to its next page.
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
	if err != nil { // another agent has sent it
		w.jump(p, w.chance(i, p.steps, 1))
		return nil
	}
	// The whole way of the walker would be too long for a discovery path. Hops has only its
	// end: a link, and the redirects in a row after it, whose number the crawl bounds.
	hops := "L"
	if s.kind == stopRedirect {
		hops = from.Hops + "R"
	}
	p.at = link.Link{URL: u, Via: from.URL.String(), Hops: hops, Seed: from.Seed}
	return nil
}

// jump moves a walker to the seed that chance selects.
func (w *Walk) jump(p *walker, chance uint64) {
	u := w.Seeds[chance%uint64(len(w.Seeds))]
	p.at = link.Link{URL: u, Seed: u.Host()}
}

// chance returns the pseudo-random number of a step. what distinguishes the choices of one
// step: 0 whether to jump, 1 the seed to jump to, 2 the link to follow.
func (w *Walk) chance(walker, step, what int) uint64 {
	var b [32]byte
	for i, n := range [...]uint64{w.cfg.Seed, uint64(walker), uint64(step), uint64(what)} {
		binary.LittleEndian.PutUint64(b[8*i:], n)
	}
	return xxhash.Sum64(b[:])
}

// read returns the page and its encoded stop at an offset of the file of links.
func (w *Walk) read(at int64) (l link.Link, state []byte, err error) {
	fail := func(err error) (link.Link, []byte, error) {
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
	l, used, err := link.Decode(b)
	if err != nil {
		return fail(err)
	}
	return l, b[used:], nil
}

// WriteReport writes the sample to walk.csv in dir, in the order in which the pages were
// fetched. Its columns: visits by walkers; share of all visits, which estimates PageRank;
// links to choose from.
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
			s := w.pages[link.KeyOf(l.URL)]
			if s != nil && s.at == at && s.visits > 0 {
				share := strconv.FormatFloat(float64(s.visits)/math.Max(float64(all), 1), 'g', 6, 64)
				row(l.URL.String(), strconv.Itoa(int(s.visits)), share, strconv.Itoa(int(s.n)))
			}
			at += int64(n + len(binary.AppendUvarint(nil, uint64(n))))
		}
	})
	return cmp.Or(err, broken)
}
