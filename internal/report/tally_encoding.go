package report

import (
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/internal/store/fields"
)

// ErrTally means that the encoding of a Tally is damaged or of an unknown version.
var ErrTally = errors.New("the tally is damaged or of an unknown version")

const tallyVersion = 1

// AppendTo appends t's encoding to dst and returns the result. The time at which the crawl began is not in it.
//
//	byte    tallyVersion
//	uvarint totals: pages, fetched, finished, bytes, duplicates, denied,
//	        truncated, robots, bytes of robots, found, unique, sent, retried,
//	        revisits, unchanged, changed, unkept, exported and their bytes,
//	        imported and their bytes, near-duplicates, refetched
//	hosts   uvarint number, then each: name, uvarint pages, urls, bytes, robots, errors, denied, duplicates
//	seeds   uvarint number, then each: name, uvarint pages, urls, bytes
//	mimes   as seeds
//	status  uvarint number, then each: varint code, uvarint urls
//	errors  uvarint number, then each: name, uvarint urls; the name is the kind,
//	        or the kind, a zero byte and the cause of the first such error
//	skipped uvarint number, then each: name, uvarint links; the name is the reason,
//	        or the reason, a zero byte and the prefix in hosts: that decided
//	files   uvarint total, then uvarint of each host; then uvarint pages of seeds. An older
//	        state has none of these, and each of its pages counts as one of a seed. Then uvarint
//	        duplicates of earlier crawls, unless there are none
//
// A name is encoded as its length, a uvarint, and its bytes. Hosts and seeds are in the order in which they were added,
// all other names are sorted.
func (t *Tally) AppendTo(dst []byte) []byte {
	t.EachPiece(math.MaxInt, func(all []byte, _ bool) error {
		dst = append(dst, all...)
		return nil
	})
	return dst
}

// EachPiece calls fn with successive pieces of the encoding that AppendTo describes, so that a large tally is not held
// in memory a second time. A piece ends when it has reached size bytes, so it may be longer by one entry. last marks
// the last piece. A piece is valid until fn returns. EachPiece stops at the first error of fn and returns it.
func (t *Tally) EachPiece(size int, fn func(piece []byte, last bool) error) error {
	var dst []byte
	var err error
	u := func(n int64) { dst = binary.AppendUvarint(dst, uint64(n)) }
	// end ends an entry, and passes the piece on if it is full.
	end := func() {
		if len(dst) >= size && err == nil {
			err = fn(dst, false)
			dst = dst[:0]
		}
	}
	name := func(s string) { u(int64(len(s))); dst = append(dst, s...) }
	dst = append(dst, tallyVersion)
	for _, n := range t.n.all() {
		u(*n)
	}
	u(int64(t.hosts.count))
	for k, h := range t.hosts.all() {
		u(int64(len(k)))
		dst = append(dst, k...)
		for _, n := range h.numbers() {
			u(n)
		}
		if end(); err != nil {
			return err
		}
	}
	u(int64(t.seeds.count))
	for k, c := range t.seeds.all() {
		u(int64(len(k)))
		dst = append(dst, k...)
		u(c.pages)
		u(c.urls)
		u(c.bytes)
		if end(); err != nil {
			return err
		}
	}
	u(int64(len(t.mimes)))
	for _, k := range slices.Sorted(maps.Keys(t.mimes)) {
		name(k)
		u(t.mimes[k].pages)
		u(t.mimes[k].urls)
		u(t.mimes[k].bytes)
		end()
	}
	u(int64(len(t.status)))
	for _, k := range slices.Sorted(maps.Keys(t.status)) {
		dst = binary.AppendVarint(dst, int64(k))
		u(t.status[k])
		end()
	}
	for i, m := range [...]map[string]int64{t.errors, t.skipped} {
		u(int64(len(m)))
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if cause := t.causes[k]; i == 0 && cause != "" {
				name(k + "\x00" + cause)
			} else {
				name(k)
			}
			u(m[k])
			end()
		}
	}
	if t.n.files > 0 || t.n.seedPages != t.n.pages || t.n.earlier > 0 {
		u(t.n.files)
		for _, h := range t.hosts.all() {
			u(int64(h.files))
			end()
		}
		u(t.n.seedPages)
		if t.n.earlier > 0 {
			u(t.n.earlier)
		}
	}
	if err != nil {
		return err
	}
	return fn(dst, true)
}

// Decode replaces t's counts by those that AppendTo encoded. If it fails, it returns ErrTally and leaves t unchanged.
func (t *Tally) Decode(src []byte) error {
	c := fields.Read(src)
	n := Tally{started: t.started, status: make(map[int]int64), causes: make(map[string]string)}
	c.Tag(tallyVersion)
	number := func() (v int64) {
		fields.Uint(c, &v)
		c.Check(v >= 0 && v <= 1<<62)
		return v
	}
	name := func() (s string) {
		fields.Text(c, &s, math.MaxInt)
		return s
	}
	// entries reads the number of entries that follow. Each has at least two bytes, which bounds the number.
	entries := func() int {
		n := number()
		if c.Check(n <= int64(c.Left()/2)); !c.Ok() {
			return 0
		}
		return int(n)
	}
	for _, p := range n.n.all() {
		*p = number()
	}
	for range entries() {
		h := n.hosts.findOrAdd(name())
		var numbers [7]int64
		for i := range numbers {
			numbers[i] = number()
		}
		h.set(numbers)
	}
	for range entries() {
		s := n.seeds.findOrAdd(name())
		s.pages, s.urls, s.bytes = number(), number(), number()
	}
	for range entries() {
		m := findOrAdd(&n.mimes, name(), 0)
		m.pages, m.urls, m.bytes = number(), number(), number()
	}
	for range entries() {
		var code int
		fields.Int(c, &code)
		c.Check(code == int(int32(code)))
		n.status[code] = number()
	}
	for _, m := range [...]*map[string]int64{&n.errors, &n.skipped} {
		*m = make(map[string]int64)
		for range entries() {
			k := name()
			if kind, cause, ok := strings.Cut(k, "\x00"); ok && m == &n.errors {
				k, n.causes[kind] = kind, cause
			}
			(*m)[k] = number()
		}
	}
	n.n.seedPages = n.n.pages
	if c.Left() > 0 {
		n.n.files = number()
		for _, h := range n.hosts.all() {
			h.files = uint32(number())
		}
		n.n.seedPages = number()
		if c.Left() > 0 {
			n.n.earlier = number()
			c.Check(n.n.earlier > 0)
		}
		c.Check(n.n.files > 0 || n.n.seedPages != n.n.pages || n.n.earlier > 0)
	}
	if !c.Whole() {
		return ErrTally
	}
	*t = n
	return nil
}
