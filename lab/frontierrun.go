package lab

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// A QueueSpec tells the process of a frontier what to measure.
type QueueSpec struct {
	Dir   string
	Seed  uint64
	Hosts int64
	// Points are the numbers of queued links at which the process measures, ascending.
	Points []int64
}

// A QueuePoint is a measurement of a frontier with a number of queued links.
type QueuePoint struct {
	Queued int64 `json:"links"`
	Hosts  int64 `json:"hosts"` // with links

	Pushed   int64         `json:"pushes"` // since the point before
	PushTime time.Duration `json:"push_ns"`

	// The measurement: alternating pushes and pops.
	Ops  int64         `json:"ops"`
	Time time.Duration `json:"ns"`
	CPU  time.Duration `json:"cpu_ns"`
	IO   IO            `json:"io"`
	Next Percentiles   `json:"next"`
	Push Percentiles   `json:"push"`

	RAM   int64 `json:"ram_bytes"` // largest since the point before
	Disk  int64 `json:"disk_bytes"`
	InRAM int64 `json:"hosts_in_ram"`
	// Wrong counts links that came out twice, or before an earlier link of their host.
	Wrong int64   `json:"wrong"`
	Made  float64 `json:"links_made_per_s"`
	// Own is the time per operation without a frontier, for timing and checking.
	Own time.Duration `json:"own_ns"`
	// Pooled counts the links in the frontier's pools on disk at the end.
	Pooled int64 `json:"pooled"`
}

// OpsPerS returns the pushes and pops per second.
func (p *QueuePoint) OpsPerS() float64 { return float64(p.Ops) / max(p.Time.Seconds(), 1e-9) }

const (
	pageLinks    = 62 // links per page, as IRLbot, a crawler (paper), counted them
	queueWorkers = 1000
	queueOps     = 2_000_000 // largest number of pops in a measurement
	fetchTime    = 100 * time.Millisecond
)

// linkMaker makes links whose hosts follow a power law.
type linkMaker struct {
	rand  *rand.Rand
	hosts int64
	n     int64
	ref   []byte

	known int64
	log   float64 // logarithm of known
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x6c696e6b)) }

// host returns the host of link n. Every twentieth link has a new host, until all hosts have
// links. The others have an earlier host, by a power law.
func (m *linkMaker) host(n int64) int64 {
	if known := min(n/20+1, m.hosts); known != m.known {
		m.known, m.log = known, math.Log(float64(known))
	}
	if n%20 == 0 && n/20 < m.hosts {
		return n / 20
	}
	return min(int64(math.Exp(m.rand.Float64()*m.log)), m.known) - 1
}

// A linkPage holds the links of a page.
type linkPage struct {
	batch link.Batch
	links []link.Link
	err   error
}

// page fills p with the links of the next page.
func (m *linkMaker) page(p *linkPage) error {
	p.batch.Reset()
	for i := range pageLinks {
		host := m.host(m.n + int64(i))
		m.ref = append(m.ref[:0], "https://h"...)
		m.ref = appendDigits(m.ref, host, 8)
		m.ref = append(m.ref, ".example/archive/products/"...)
		m.ref = appendDigits(m.ref, m.n+int64(i), 12)
		if _, err := p.batch.Resolve(m.ref); err != nil {
			return fmt.Errorf("link %s: %w", m.ref, err)
		}
	}
	p.batch.Seal()
	p.links = p.links[:0]
	via := p.batch.URL(0).String()
	for i := range pageLinks {
		p.links = append(p.links, link.Link{URL: p.batch.URL(i), Via: via, Hops: "LLLLLL", Seed: "h00000000.example"})
	}
	m.n += pageLinks
	return nil
}

// linkPages is the number of pages that wait for the frontier.
const linkPages = 64

// A linkSource makes pages in a goroutine of its own, beside the owner of the frontier.
type linkSource struct {
	full, free chan *linkPage
	now        *linkPage
}

// newLinkSource starts the maker, which works until the caller calls stop.
func newLinkSource(m *linkMaker) (s *linkSource, stop func()) {
	s = &linkSource{full: make(chan *linkPage, linkPages), free: make(chan *linkPage, linkPages)}
	for range linkPages {
		s.free <- new(linkPage)
	}
	over := make(chan struct{})
	var maker sync.WaitGroup
	maker.Go(func() {
		for {
			select {
			case <-over:
				return
			case p := <-s.free:
				p.err = m.page(p)
				s.full <- p // never blocks: the channel has space for all pages
			}
		}
	})
	return s, func() { close(over); maker.Wait() }
}

// page returns the links of the next page. The slice is valid until the next call, the strings
// of the links for ever.
func (s *linkSource) page() ([]link.Link, error) {
	if s.now != nil {
		s.free <- s.now // never blocks, likewise
	}
	s.now = <-s.full
	return s.now.links, s.now.err
}

func appendDigits(dst []byte, n int64, width int) []byte {
	var b [20]byte
	for i := width - 1; i >= 0; i-- {
		b[i] = byte('0' + n%10)
		n /= 10
	}
	return append(dst, b[:width]...)
}

// linkNumbers reads the numbers of a link's host and of the link from its URL.
func linkNumbers(l *link.Link) (host, n int64, err error) {
	name, s := l.URL.Host(), l.URL.String()
	if len(name) < 9 || len(s) < 12 {
		return 0, 0, fmt.Errorf("link %s: not a link of this experiment", s)
	}
	host, err = strconv.ParseInt(name[1:9], 10, 64)
	if err == nil {
		n, err = strconv.ParseInt(s[len(s)-12:], 10, 64)
	}
	return host, n, err
}

// queueRun is a frontier under measurement.
type queueRun struct {
	f      *frontier.Frontier
	links  *linkSource
	made   int64 // links taken from the source
	hosts  int64 // largest number
	mem    *memoryWatch
	dir    string
	queued int64
	last   []uint32 // for each host, the last link that came out, plus one
	wrong  int64
	now    time.Time
	busy   []fetching // by their ends
	next   *Latencies
	push   *Latencies
}

// fetching is a host with a fetch in progress.
type fetching struct {
	host string
	end  time.Time
}

// RunQueue runs the process of a frontier. spec is a QueueSpec as JSON. It writes a QueuePoint
// as a line of JSON for each point.
func RunQueue(ctx context.Context, spec []byte, out io.Writer) error {
	var s QueueSpec
	if err := json.Unmarshal(spec, &s); err != nil {
		return fmt.Errorf("frontier: %w", err)
	}
	if s.Hosts <= 0 || s.Hosts >= 1e8 || len(s.Points) == 0 {
		return fmt.Errorf("frontier: %d hosts and %d points: give values above 0", s.Hosts, len(s.Points))
	}
	r := &queueRun{hosts: s.Hosts, dir: s.Dir, now: time.Unix(1e9, 0)}
	r.last = make([]uint32, s.Hosts)
	for i := range r.last {
		r.last[i] = 1 // touch the memory, so that it counts from the start
	}
	clear(r.last)
	made, own, err := r.ownCost(s)
	if err != nil {
		return err
	}
	source, end := newLinkSource(&linkMaker{rand: newRand(s.Seed), hosts: s.Hosts})
	defer end()
	r.links = source
	mem, stop := watchMemory()
	defer stop()
	r.mem = mem
	if r.f, err = frontier.Open(disk.OS, filepath.Join(s.Dir, "queues"), frontier.Config{
		Seed: s.Seed, HostDelay: 2 * time.Second, // the defaults of a crawl
		IPDelay: 500 * time.Millisecond, SiteDelay: 500 * time.Millisecond,
	}); err != nil {
		return err
	}
	enc := json.NewEncoder(out)
	for _, links := range s.Points {
		p := QueuePoint{Made: made, Own: own}
		r.next, r.push = new(Latencies), new(Latencies)
		start := time.Now()
		for r.queued < links {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := r.pushPage(); err != nil {
				return err
			}
			p.Pushed += pageLinks
		}
		p.PushTime = time.Since(start)
		if err := r.measure(ctx, &p); err != nil {
			return err
		}
		if err := enc.Encode(p); err != nil {
			return err
		}
	}
	return r.f.Close()
}

// ownCost measures how many links are made per second, and how long timing and checking take
// per operation. It leaves r unchanged.
func (r *queueRun) ownCost(s QueueSpec) (made float64, own time.Duration, err error) {
	m := linkMaker{rand: newRand(s.Seed + 1), hosts: s.Hosts}
	var next, push Latencies
	var making time.Duration
	var p linkPage
	start := time.Now()
	for m.n < 200_000 {
		begin := time.Now()
		if err := m.page(&p); err != nil {
			return 0, 0, err
		}
		making += time.Since(begin)
		begin = time.Now()
		push.Add(time.Since(begin))
		for i := range p.links {
			begin = time.Now()
			next.Add(time.Since(begin))
			if _, err := r.check(&p.links[i]); err != nil {
				return 0, 0, err
			}
		}
	}
	own = (time.Since(start) - making) / time.Duration(2*m.n)
	if r.wrong > 0 {
		return 0, 0, fmt.Errorf("%w: %d links in the measurement without a frontier", ErrOrder, r.wrong)
	}
	clear(r.last)
	return float64(m.n) / making.Seconds(), own, nil
}

// check records that l has come out, and counts it as wrong if it came out before or out of
// its host's order.
func (r *queueRun) check(l *link.Link) (host int64, err error) {
	host, n, err := linkNumbers(l)
	if err != nil {
		return 0, err
	}
	if uint32(n)+1 <= r.last[host] {
		r.wrong++
	}
	r.last[host] = uint32(n) + 1
	return host, nil
}

func (r *queueRun) pushPage() error {
	links, err := r.links.page()
	if err != nil {
		return err
	}
	r.made += int64(len(links))
	start := time.Now()
	err = r.f.Push(links)
	r.push.Add(time.Since(start))
	r.queued += int64(len(links))
	return err
}

// pop takes one link out of the frontier, when a worker is free and a host is due.
func (r *queueRun) pop() error {
	for {
		if len(r.busy) > 0 && (len(r.busy) == queueWorkers || !r.busy[0].end.After(r.now)) {
			if err := r.done(); err != nil {
				return err
			}
			continue
		}
		start := time.Now()
		t, wake, ok := r.f.Next(r.now)
		r.next.Add(time.Since(start))
		if !ok {
			if err := r.f.Err(); err != nil {
				return err
			}
			switch {
			case len(r.busy) > 0 && (wake.IsZero() || !r.busy[0].end.After(wake)):
				if err := r.done(); err != nil {
					return err
				}
			case wake.IsZero():
				return fmt.Errorf("frontier: %d links are queued but none comes out", r.queued)
			case wake.After(r.now):
				r.now = wake
			}
			continue
		}
		if !t.Addr.IsValid() {
			host, _, err := linkNumbers(&t.Link)
			if err != nil {
				return err
			}
			r.f.Resolved(t.Host, addressOf(host), r.now.Add(time.Hour), r.now)
			continue
		}
		if _, err := r.check(&t.Link); err != nil {
			return err
		}
		r.queued--
		r.busy = append(r.busy, fetching{t.Host, r.now.Add(fetchTime)})
		return nil
	}
}

// done ends the fetch with the earliest end.
func (r *queueRun) done() error {
	d := r.busy[0]
	r.busy = r.busy[1:]
	if d.end.After(r.now) {
		r.now = d.end
	}
	return r.f.Done(d.host, frontier.Done{}, r.now)
}

// addressOf returns the address of a host. Each host has its own.
func addressOf(host int64) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], 1<<24+uint32(host))
	return netip.AddrFrom4(b)
}

// measure pops and pushes in turns.
func (r *queueRun) measure(ctx context.Context, p *QueuePoint) error {
	p.Queued, p.Hosts = r.queued, min(r.made/20+1, r.hosts)
	r.next, r.push = new(Latencies), new(Latencies)
	before, cpu, start := ownIO(), ownCPU(), time.Now()
	for p.Ops < 2*min(queueOps, p.Queued) {
		if err := ctx.Err(); err != nil {
			return err
		}
		for range pageLinks {
			if err := r.pop(); err != nil {
				return err
			}
		}
		if err := r.pushPage(); err != nil {
			return err
		}
		p.Ops += 2 * pageLinks
	}
	p.Time, p.CPU, p.IO = time.Since(start), ownCPU()-cpu, ownIO().since(before)
	p.Next, p.Push, p.Wrong = r.next.Spread(), r.push.Spread(), r.wrong
	p.RAM, _ = r.mem.peak()
	stats := r.f.Stats()
	p.InRAM, p.Pooled = int64(stats.Hosts), stats.Pooled
	var err error
	p.Disk, err = sizeOf(r.dir)
	return err
}
