package earlier

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/extsort"
	"github.com/orbweaver/orbweaver/internal/store/fixed"
	"github.com/orbweaver/orbweaver/internal/store/lines"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// Folder is the folder of a crawl directory that has the table.
const Folder = "state/earlier"

const (
	tableName = "payloads"
	sortName  = "sort-"
	leastSort = 16 << 20 // bytes of memory for the sort
	noteEvery = 2_000_000
)

// Notes tell the operator something.
type Notes interface{ Note(text string) }

// Config says which earlier crawls count.
type Config struct {
	FS  disk.FS
	Dir string // the directory of this crawl
	// Paths are crawl directories and CDXJ files.
	Paths []string
	// LeastBytes is the smallest body that Find looks for, in bytes.
	LeastBytes int64
	// MemoryBytes bounds the memory of the table, and that of the sort if it is over 16 MiB.
	MemoryBytes int64
}

// Payloads are those of earlier crawls. Before Open there are none. Find is safe for concurrent use, also with Open.
type Payloads struct {
	cfg   Config
	sort  int // bytes of memory for the sort
	table atomic.Pointer[fixed.Table]
	bufs  sync.Pool // of *[]byte
}

// New returns Payloads without any. It does not touch the disk.
func New(cfg Config) *Payloads {
	p := &Payloads{cfg: cfg, sort: int(max(cfg.MemoryBytes, leastSort))}
	p.bufs.New = func() any { return new([]byte) }
	return p
}

// Read says what Open has read.
type Read struct {
	// Built is false if the table of an earlier run was there.
	Built    bool
	Payloads int64 // different ones
	// The lines of the indexes: all of them, and those without a response, and those that cannot be read.
	Lines, PassedOver, Bad int64
	Bytes                  int64 // of the table
}

// note is what the table says about its origin.
type note struct {
	Sources []*source
}

func (p *Payloads) name() string { return filepath.Join(p.cfg.Dir, Folder, tableName) }

// Open opens the table of an earlier run of this crawl, or reads the earlier crawls. It tells what people should know,
// and the progress of a long work. The error is an *input.ConfigError, that of ctx, or one of the
// disk. After a kill the table is whole or absent.
func (p *Payloads) Open(ctx context.Context, tell Notes) (Read, error) {
	t, err := fixed.Open(p.cfg.FS, p.name(), p.cfg.MemoryBytes)
	switch {
	case errors.Is(err, fixed.ErrDamaged):
		tell.Note("the table of earlier crawls' payloads is damaged; reading the earlier crawls again")
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return Read{}, err
	case err == nil:
		var of note
		if json.Unmarshal(t.Note(), &of) == nil && p.holds(&of, tell) {
			p.table.Store(t)
			return p.read(&of, false)
		}
		if err := t.Close(); err != nil {
			return Read{}, err
		}
	}
	of, err := p.build(ctx, tell)
	if err != nil {
		return Read{}, err
	}
	if t, err = fixed.Open(p.cfg.FS, p.name(), p.cfg.MemoryBytes); err != nil {
		return Read{}, err
	}
	p.table.Store(t)
	return p.read(of, true)
}

// holds reports whether a table of these sources is the one that p needs.
func (p *Payloads) holds(of *note, tell Notes) bool {
	if !slices.EqualFunc(of.Sources, p.cfg.Paths, func(s *source, path string) bool { return s.Path == path }) {
		tell.Note("other earlier crawls are named than in the last run; reading them")
		return false
	}
	changed := ""
	for _, s := range of.Sources {
		now, err := find(p.cfg.FS, s.Path)
		if err != nil {
			tell.Note(fmt.Sprintf("the earlier crawl %s cannot be read any more; what was read of it still counts",
				s.Path))
			return true
		}
		if !slices.Equal(now.Files, s.Files) {
			changed = s.Path
		}
	}
	if changed != "" {
		tell.Note(fmt.Sprintf("the earlier crawl %s has changed; reading it again", changed))
	}
	return changed == ""
}

func (p *Payloads) read(of *note, built bool) (Read, error) {
	r := Read{Built: built, Payloads: p.table.Load().Len()}
	for _, s := range of.Sources {
		r.Lines, r.PassedOver, r.Bad = r.Lines+s.Lines, r.PassedOver+s.Revisits+s.Others, r.Bad+s.Bad
	}
	info, err := p.cfg.FS.Stat(p.name())
	if err == nil {
		r.Bytes = info.Size()
	}
	return r, err
}

// build writes the table.
func (p *Payloads) build(ctx context.Context, tell Notes) (of *note, err error) {
	dir := filepath.Dir(p.name())
	if err := p.sweep(dir); err != nil {
		return nil, err
	}
	all := extsort.New(p.cfg.FS, filepath.Join(dir, sortName), p.sort, ctx)
	defer func() { err = errors.Join(err, all.Close()) }()
	b := builder{fs: p.cfg.FS, all: all, tell: tell}
	for _, path := range p.cfg.Paths {
		if err := b.read(ctx, path); err != nil {
			return nil, err
		}
	}
	if all.Len() > noteEvery {
		tell.Note("sorting " + report.Count(all.Len(), "payload") + " of earlier crawls")
	}
	if err := fixed.Write(p.cfg.FS, p.name(), all.Len(), p.cfg.MemoryBytes, &b); err != nil {
		return nil, err
	}
	return &b.of, nil
}

// sweep makes the folder of the table, or removes what a killed process has left there. A table stays until the next
// one takes its place.
func (p *Payloads) sweep(dir string) error {
	if err := p.cfg.FS.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := p.cfg.FS.SyncDir(filepath.Dir(dir)); err != nil {
		return err
	}
	entries, err := p.cfg.FS.ReadDir(dir)
	for _, e := range entries {
		if e.Name() != tableName && err == nil {
			err = p.cfg.FS.Remove(filepath.Join(dir, e.Name()))
		}
	}
	return err
}

// A builder reads sources. It is the fixed.Source of the table.
type builder struct {
	fs   disk.FS
	all  *extsort.Queue
	tell Notes
	of   note
	rec  []byte
}

// Entries passes each digest once. The first of equal ones is of this program, or else the oldest.
func (b *builder) Entries(add func(key fixed.Key, value []byte) error) ([]byte, error) {
	var last fixed.Key
	first := true
	err := b.all.Each(func(rec []byte) error {
		if key := fixed.Key(rec[:20]); first || key != last {
			first, last = false, key
			return add(key, rec[20:])
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return json.Marshal(b.of)
}

// read reads a source.
func (b *builder) read(ctx context.Context, path string) error {
	s, err := find(b.fs, path)
	if err != nil {
		return err
	}
	b.of.Sources = append(b.of.Sources, s)
	for _, f := range s.Files {
		if err := b.file(ctx, s, f); err != nil {
			return err
		}
	}
	if s.Bad > 0 && s.Usable == 0 {
		return input.Errorf("{dedup-from} %s: none of %s is of a response that could be used; the first bad line is "+
			"%s; "+remedy, path, report.Count(s.Lines, "line"), s.Refused)
	}
	if s.Bad > 0 {
		b.tell.Note(fmt.Sprintf("%s: %s of %s cannot be read and are left out; the first is %s", path,
			report.Count(s.Bad, "line"), report.Count(s.Lines, "line"), s.Refused))
	}
	if s.Usable == 0 {
		b.tell.Note(fmt.Sprintf("%s has no response that a page could be equal to", path))
	}
	return nil
}

// file reads one index of a source.
func (b *builder) file(ctx context.Context, s *source, f file) error {
	in, err := f.open(b.fs, ctx)
	if err != nil {
		return err
	}
	defer in.Close()
	r := lines.NewReader(in.Reader, 64<<10, maxLine)
	var e entry
	for n := int64(1); ; n++ {
		line, err := r.Next()
		if err == io.EOF {
			return nil
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && (len(bytes.TrimSpace(line)) == 0 || line[0] == '!' || line[0] == ' '):
			continue // empty, or a header
		case err == nil:
			err = e.parse(line, s.Ours)
		case err == bufio.ErrTooLong:
			err = fmt.Errorf("over %d bytes", maxLine)
		case err == io.ErrUnexpectedEOF && r.Size() > 0:
			err = errors.New("cut off")
		default:
			return refused(f.Name, err)
		}
		if s.Lines++; s.Lines%noteEvery == 0 {
			b.tell.Note(fmt.Sprintf("reading the earlier crawl %s: %s, %d %% of %s", s.Path,
				report.Count(s.Lines, "line"), 100*in.at/max(f.Size, 1), filepath.Base(f.Name)))
		}
		switch err {
		case nil:
			s.Usable++
			b.rec = e.appendTo(b.rec[:0])
			if err := b.all.Push(b.rec); err != nil {
				return err
			}
		case errRevisit:
			s.Revisits++
		case errOther:
			s.Others++
		default:
			if s.Bad++; s.Bad == 1 {
				s.Refused = fmt.Sprintf("line %d of %s: %v", n, filepath.Base(f.Name), err)
			}
		}
	}
}

// Find returns the record of an earlier crawl that holds the payload of size bytes whose body has the digest body, and
// which came from the server with the digest stored. The error is one of the disk. It implements warc.Earlier.
func (p *Payloads) Find(body, stored [20]byte, size int64) (o warc.Original, ok bool, err error) {
	t := p.table.Load()
	if t == nil || size < p.cfg.LeastBytes {
		return o, false, nil
	}
	e, ok, err := p.look(t, body)
	if ok = ok && (e.kind != kindOther || body == stored); ok && e.kind == kindCoded {
		o.Stored = e.stored
	}
	if !ok && err == nil && body != stored {
		e, ok, err = p.look(t, stored)
		ok = ok && e.kind != kindCoded
		o.Stored = stored
	}
	if !ok || err != nil {
		return warc.Original{}, false, err
	}
	o.URL, o.Date = e.url, e.date
	return o, true, nil
}

func (p *Payloads) look(t *fixed.Table, digest fixed.Key) (e entry, ok bool, err error) {
	buf := p.bufs.Get().(*[]byte)
	defer p.bufs.Put(buf)
	*buf, ok, err = t.Find((*buf)[:0], digest)
	return e, ok && e.setValue(*buf), err
}

// Size returns the number of payloads, and the bytes that they take in RAM and on disk.
func (p *Payloads) Size() (n, memory, disk int64) {
	t := p.table.Load()
	if t == nil {
		return 0, 0, 0
	}
	if info, err := p.cfg.FS.Stat(p.name()); err == nil {
		disk = info.Size()
	}
	return t.Len(), t.Memory(), disk
}

// Close closes the table. Find must not be called afterwards.
func (p *Payloads) Close() error {
	if t := p.table.Swap(nil); t != nil {
		return t.Close()
	}
	return nil
}
