package lab

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"

	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// The model is a breadth-first crawl by agents that fetch a page each in turn. It counts the links
// that cross between agents, for several remedies, and encodes them as the crawl does.

// A remedy is a way to send fewer links.
type remedy struct {
	name string
	// What the sender remembers: every link it has sent if exact, else those in a cache of 2^bits
	// slots, or nothing. shared caches hold the links to own pages, too.
	exact, shared bool
	bits          int
	// What the owner is asked first: nothing, whether another agent has pushed the URL (pushed), or
	// whether it is in the owner's cache of 2^bits slots.
	pushed bool
	owner  int
	// epoch is the number of own pages after which an agent with a long queue sends. Zero: at once.
	epoch int64
}

// linksCache is the size of the owner's cache in a crawl (known.Durable).
const linksCache = 18

// linksRemedies are the rows of the model.
var linksRemedies = []remedy{
	{name: "nothing is remembered"},
	{name: "cache of 4,096 links sent", bits: 12},
	{name: "cache of 65,536 links sent", bits: 16},
	{name: "the same for own and foreign links", bits: 16, shared: true},
	{name: "each link once", exact: true},
	{name: "the same, every 10 pages (before)", exact: true, epoch: 10},
	{name: "the same, every 680 pages", exact: true, epoch: 680},
	{name: "keys first: URLs pushed before", exact: true, pushed: true},
	{name: "keys first: cache of the owner", exact: true, owner: linksCache},
	{name: "the same, every 34 pages (now)", exact: true, owner: linksCache, epoch: 34},
	{name: "the same, every 680 pages", exact: true, owner: linksCache, epoch: 680},
	{name: "a cache of 4,096 URLs, every 34 pages", exact: true, owner: 12, epoch: 34},
}

// epochFrom is the number of own pages in the queue from which an agent gathers links.
const epochFrom = 256

// A ModelRow is the result of a remedy.
type ModelRow struct {
	Remedy string  `json:"remedy"`
	Fill   float64 `json:"fill"`
	Links  float64 `json:"links_per_page"`
	Keys   float64 `json:"keys_per_page"`
	// Deeper is the share of the pages that are reached by more links than if all links are sent at
	// once. Set at a fill of 1.
	Deeper float64 `json:"deeper"`
}

// A page of the model is the host and page of gen, with a number.
type modelPage struct{ host, page, id int64 }

// linksModel has the web of the model.
type linksModel struct {
	web   *gen.Web
	first []int64 // number of the first page, by host
	owner []int   // by host
	total int64
	n     int
}

// modelAgents is the number of agents of the model.
const modelAgents = 8

func (x *Links) newModel(t *Trial) (*linksModel, error) {
	w, err := gen.New(linksWeb(t.Seed, x.Hosts))
	if err != nil {
		return nil, err
	}
	m := &linksModel{web: w, n: modelAgents}
	d, err := placement.NewRendezvous(members(t.Seed, 0, m.n, equal), 0)
	if err != nil {
		return nil, err
	}
	number := map[string]int{}
	for i, a := range d.Agents() {
		number[a.Name] = i
	}
	for h := range w.Hosts() {
		name, _ := w.Name(h)
		m.first = append(m.first, m.total)
		m.owner = append(m.owner, number[d.Owner(link.HostKey(name)).Name])
		m.total += w.Pages(h)
	}
	return m, nil
}

// crawl crawls the web with a remedy. sent is called with each link that is sent in full.
func (m *linksModel) crawl(ctx context.Context, r remedy, sent func(from, to int, page, via modelPage, depth int32)) (
	rows []ModelRow, depth []int32, err error) {
	type toSend struct {
		page, via modelPage
		depth     int32
	}
	agents := make([]struct {
		queue   []modelPage
		sent    modelSet // what the sender remembers
		has     modelSet // the owner's cache
		waiting [][]toSend
		flushed int64 // pages since the last time it sent
	}, m.n)
	for i := range agents {
		a := &agents[i]
		a.sent, a.has = newModelSet(r.exact, r.bits, m.total), newModelSet(r.pushed, r.owner, m.total)
		a.waiting = make([][]toSend, m.n)
	}
	known := make([]bool, m.total)
	depth = make([]int32, m.total)
	fetched := 0.0
	var links, keys int64
	accept := func(o int, p modelPage, d int32) {
		if !known[p.id] {
			known[p.id], depth[p.id] = true, d
			agents[o].queue = append(agents[o].queue, p)
		}
	}
	deliver := func(from, to int, l toSend) {
		asks := r.pushed || r.owner > 0
		if asks {
			keys++
			if agents[to].has.has(l.page.id) {
				return
			}
		}
		links++
		if sent != nil {
			sent(from, to, l.page, l.via, l.depth)
		}
		agents[to].has.add(l.page.id)
		accept(to, l.page, l.depth)
	}
	flush := func(a int) {
		for to, ls := range agents[a].waiting {
			for _, l := range ls {
				deliver(a, to, l)
			}
			agents[a].waiting[to] = ls[:0]
		}
	}
	accept(m.owner[0], modelPage{}, 0)
	var refs []gen.Ref
	fills := linksFills
	for busy := true; busy; {
		busy = false
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		for i := range agents {
			a := &agents[i]
			if len(a.queue) == 0 {
				flush(i)
				busy = busy || len(a.queue) > 0
				continue
			}
			busy = true
			via := a.queue[0]
			a.queue = a.queue[1:]
			fetched++
			a.flushed++
			refs = m.web.Links(via.host, via.page, refs[:0])
			for _, ref := range refs {
				if ref.Page < 0 || ref.Page >= m.web.Pages(ref.Host) {
					continue
				}
				to := modelPage{ref.Host, ref.Page, m.first[ref.Host] + ref.Page}
				o := m.owner[to.host]
				if o == i {
					if r.shared {
						a.sent.add(to.id)
					}
					if !r.pushed {
						a.has.add(to.id)
					}
					accept(i, to, depth[via.id]+1)
					continue
				}
				if a.sent.has(to.id) {
					continue
				}
				a.sent.add(to.id)
				if l := (toSend{to, via, depth[via.id] + 1}); r.epoch > 0 {
					a.waiting[o] = append(a.waiting[o], l)
				} else {
					deliver(i, o, l)
				}
			}
			if r.epoch > 0 && (a.flushed >= r.epoch || len(a.queue) < epochFrom) {
				flush(i)
				a.flushed = 0
			}
			for len(fills) > 1 && fetched >= fills[0]*float64(m.total) {
				rows = append(rows, ModelRow{Remedy: r.name, Fill: fills[0], Links: float64(links) / fetched,
					Keys: float64(keys) / fetched})
				fills = fills[1:]
			}
		}
	}
	return append(rows, ModelRow{Remedy: r.name, Fill: 1, Links: float64(links) / fetched,
		Keys: float64(keys) / fetched}), depth, nil
}

// A modelSet is an exact set, a cache, or always empty.
type modelSet struct {
	exact []bool
	cache []int64
	bits  int
}

func newModelSet(exact bool, bits int, total int64) (s modelSet) {
	if exact {
		s.exact = make([]bool, total)
	} else if bits > 0 {
		s.cache, s.bits = make([]int64, 1<<bits), bits
	}
	return s
}

func (s *modelSet) slot(id int64) *int64 {
	return &s.cache[uint64(id+1)*0x9e3779b97f4a7c15>>(64-s.bits)]
}

func (s *modelSet) has(id int64) bool {
	return s.exact != nil && s.exact[id] || s.cache != nil && *s.slot(id) == id+1
}

func (s *modelSet) add(id int64) {
	if s.exact != nil {
		s.exact[id] = true
	} else if s.cache != nil {
		*s.slot(id) = id + 1
	}
}

// model crawls with all remedies.
func (x *Links) model(ctx context.Context, t *Trial) (rows []ModelRow, sizes []LinkSize, err error) {
	m, err := x.newModel(t)
	if err != nil {
		return nil, nil, err
	}
	var plain []int32 // depth of each page, sent at once
	for _, r := range linksRemedies {
		got, depth, err := m.crawl(ctx, r, nil)
		if err != nil {
			return nil, nil, err
		}
		if plain == nil {
			plain = depth
		}
		deeper := 0.0
		for id, d := range depth {
			if d > plain[id] {
				deeper++
			}
		}
		got[len(got)-1].Deeper = deeper / float64(m.total)
		rows = append(rows, got...)
	}
	sizes, err = m.sizes(ctx)
	return rows, sizes, err
}

// A LinkSize is the size of a link in batches of a number of links.
type LinkSize struct {
	Batch int `json:"links_per_batch"`
	// Octets of a link: as encoded; with zstd; with zstd after 64 KiB of earlier batches to the same
	// agent; with deflate after 8 KiB of them.
	Plain   float64 `json:"plain"`
	Zstd    float64 `json:"zstd"`
	History float64 `json:"zstd_after_64_kib"`
	Deflate float64 `json:"deflate_after_8_kib"`
}

// sizes encodes the links that one agent sends to another one, in batches of several sizes.
func (m *linksModel) sizes(ctx context.Context) (out []LinkSize, err error) {
	const seed = "www.science0.example"
	var encoded [][]byte
	_, _, err = m.crawl(ctx, remedy{exact: true, owner: linksCache}, func(from, to int, p, via modelPage, depth int32) {
		if from == 0 && to == 1 {
			encoded = append(encoded, link.Link{URL: weburl.MustParse(m.web.URL(p.host, p.page)),
				Via: m.web.URL(via.host, via.page), Hops: strings.Repeat("L", int(depth)), Seed: seed}.AppendTo(nil))
		}
	})
	if err != nil {
		return nil, err
	}
	encoder := func(dict []byte) (*zstd.Encoder, error) {
		opts := []zstd.EOption{zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
			zstd.WithEncoderCRC(false)}
		if len(dict) >= 8 { // the library's minimum
			opts = append(opts, zstd.WithEncoderDictRaw(1, dict))
		}
		return zstd.NewWriter(nil, opts...)
	}
	alone, err := encoder(nil)
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	for _, n := range []int{1, 4, 16, 64, 256} {
		s := LinkSize{Batch: n}
		var history, recent []byte
		links := 0
		for i := 0; i+n <= len(encoded) && links < 1024; i += n {
			batch := bytes.Join(encoded[i:i+n], nil)
			links += n
			s.Plain += float64(len(batch))
			s.Zstd += float64(len(alone.EncodeAll(batch, nil)))
			e, err := encoder(history)
			if err != nil {
				return nil, fmt.Errorf("zstd: %w", err)
			}
			s.History += float64(len(e.EncodeAll(batch, nil)))
			var b bytes.Buffer
			if err := flate.StatelessDeflate(&b, batch, true, recent); err != nil {
				return nil, fmt.Errorf("deflate: %w", err)
			}
			s.Deflate += float64(b.Len())
			history, recent = lastOf(history, batch, 64<<10), lastOf(recent, batch, 8<<10)
		}
		if links == 0 {
			break // a small web
		}
		for _, f := range []*float64{&s.Plain, &s.Zstd, &s.History, &s.Deflate} {
			*f /= float64(links)
		}
		out = append(out, s)
	}
	return out, nil
}

// lastOf returns the last n octets of a and b.
func lastOf(a, b []byte, n int) []byte {
	all := append(append([]byte(nil), a...), b...)
	return all[max(0, len(all)-n):]
}
