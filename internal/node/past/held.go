package past

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"path"
	"strings"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/output/segment"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/object"
	"github.com/orbweaver/orbweaver/internal/store/stores"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// Held is what the agents of a crawl have in the store of Segments. It implements lost.Stored.
type Held struct{ *Segments }

const (
	heldPiece    = 1 << 20  // bytes of an index that are read at once
	heldLine     = 1 << 20  // bytes of a line of an index, at most
	heldManifest = 64 << 10 // bytes of a manifest that are read; the identity of the crawl is at its beginning
	heldFiles    = 1 << 16  // WARC files of a segment that are known, at most; the pages of the others count as lost
)

// Each calls fn for the URL of each record in the complete segments of an agent. A segment counts if _SUCCESS is there
// and its manifest has the identity of this crawl: an earlier one of the same name may have archived other pages. A
// record counts if its WARC file is there. While the store is away, Each waits until ctx is done, and says so once.
func (h *Held) Each(ctx context.Context, agent string, fn func(url string) error) error {
	w := &watched{events: h.Events, clock: clock.Or(h.Clock)}
	var err error
	if w.Store, err = stores.Open(cmp.Or(h.FS, disk.OS), h.Store, object.Config{Clock: h.Clock, Waits: w}); err != nil {
		return err
	}
	root := path.Join(warc.CrawlData, h.Crawl, "segments") + "/"
	own := "-" + disk.SafeName(agent) + ".warc.gz"
	var s heldSegment
	end := func() error {
		if !s.whole || len(s.warcs) == 0 || s.index == 0 {
			return nil
		}
		run, err := runOf(ctx, w, root+s.name+"/"+segment.ManifestName)
		if err != nil || run == "" || run != h.run() {
			return err
		}
		return s.each(ctx, w, root+s.name+"/"+segment.IndexName, fn)
	}
	for after, more := "", true; more; {
		page, err := w.List(ctx, root, after, object.MaxList)
		if err != nil {
			return err
		}
		for _, o := range page.Objects {
			name, file, _ := strings.Cut(strings.TrimPrefix(o.Key, root), "/")
			if name != s.name {
				if err := end(); err != nil {
					return err
				}
				s = heldSegment{name: name, warcs: map[string]bool{}}
			}
			switch {
			case file == segment.SuccessName:
				s.whole = true
			case file == segment.IndexName:
				s.index = o.Size
			case strings.HasSuffix(file, own) && len(s.warcs) < heldFiles:
				s.warcs[o.Key] = true
			}
		}
		after, more = page.Next, page.Next != ""
	}
	return end()
}

// runOf returns the identity of the crawl that has made a segment, by its manifest; "": it has none.
func runOf(ctx context.Context, w *watched, manifest string) (string, error) {
	b, err := w.Read(ctx, manifest, 0, heldManifest)
	if errors.Is(err, object.ErrNotFound) { // a merge has removed the segment since
		return "", nil
	}
	if err != nil {
		return "", err
	}
	w.there(nil)
	d := json.NewDecoder(bytes.NewReader(b))
	for begin, err := d.Token(); err == nil && begin == json.Delim('{'); {
		var key, value json.Token
		if key, err = d.Token(); err == nil {
			value, err = d.Token()
		}
		text, is := value.(string)
		if err != nil || !is { // all fields before it are texts
			break
		}
		if key == segment.RunField {
			return text, nil
		}
	}
	return "", nil
}

// A heldSegment is a segment in the store, by the list of its files.
type heldSegment struct {
	name  string
	whole bool
	index int64           // bytes
	warcs map[string]bool // those of the agent
}

// each calls fn for the URL of each record in the WARC files of the agent. If a merge has removed the segment since,
// its pages are in another one.
func (s *heldSegment) each(ctx context.Context, w *watched, index string, fn func(url string) error) error {
	r := bufio.NewReaderSize(&piecewise{ctx: ctx, store: w, key: index, left: s.index}, heldLine)
	for {
		line, err := r.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, object.ErrNotFound):
			return nil // a line without an end does not count
		case errors.Is(err, bufio.ErrBufferFull): // not ours: the rest of the line is none
			continue
		case err != nil:
			return err
		}
		l, err := warc.ParseLine(line)
		if err != nil || !s.warcs[l.File] {
			continue
		}
		if err := fn(l.URL); err != nil {
			return err
		}
	}
}

// piecewise reads an object from its beginning.
type piecewise struct {
	ctx      context.Context
	store    *watched
	key      string
	at, left int64
	piece    []byte
}

// Read implements io.Reader.
func (p *piecewise) Read(b []byte) (int, error) {
	if len(p.piece) == 0 {
		if p.left == 0 {
			return 0, io.EOF
		}
		var err error
		if p.piece, err = p.store.Read(p.ctx, p.key, p.at, min(heldPiece, p.left)); err != nil {
			return 0, err
		}
		p.store.there(nil)
		if len(p.piece) == 0 { // it is shorter than the list said
			return 0, io.EOF
		}
		p.at, p.left = p.at+int64(len(p.piece)), p.left-int64(len(p.piece))
	}
	n := copy(b, p.piece)
	p.piece = p.piece[n:]
	return n, nil
}
