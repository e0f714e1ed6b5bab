package mirror

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"sort"
	"strings"

	"github.com/orbweaver/orbweaver/internal/output/captures"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/extsort"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/message"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A choice is the capture of a URL that the mirror shows.
type choice struct {
	url     weburl.URL
	capture captures.Capture
	mime    message.Type
	// target is where the capture redirects; the zero URL if it is a file.
	target weburl.URL
}

// choices calls fn for each URL of the archive that the mirror shows, in the order of the index.
func (m *Mirror) choices(ctx context.Context, count bool, fn func(choice) error) error {
	m.counting = count
	done := int64(0)
	for g, err := range m.cfg.Archive.Groups(ctx, "") {
		if err != nil {
			return err
		}
		byURL := map[weburl.URL][]captures.Capture{}
		var urls []weburl.URL
		for _, c := range g.Captures {
			u, err := weburl.Parse(c.URL)
			if err != nil {
				continue // dns:, metadata:, and others that no page can link to
			}
			if byURL[u] == nil {
				urls = append(urls, u)
			}
			byURL[u] = append(byURL[u], c)
		}
		for _, u := range urls {
			if m.cfg.Step != nil {
				m.cfg.Step(done, m.urls)
			}
			done++
			if err := ctx.Err(); err != nil {
				return err
			}
			c, why, err := m.choose(ctx, u, byURL[u])
			if err != nil {
				return err
			}
			if why != nil {
				if count {
					*why++
				}
				continue
			}
			if err := fn(c); err != nil {
				return err
			}
		}
	}
	m.urls = done
	return nil
}

// choose returns the capture of u nearest to the time of the mirror that is a page, a file or a
// redirect. If there is none, why is the count that the nearest capture belongs to.
func (m *Mirror) choose(ctx context.Context, u weburl.URL, all []captures.Capture) (c choice, why *int64, err error) {
	slices.SortStableFunc(all, func(a, b captures.Capture) int {
		return cmp.Compare(a.Distance(m.cfg.At), b.Distance(m.cfg.At))
	})
	for _, one := range all {
		redirect := strings.HasPrefix(one.Status, "3")
		if !one.Revisit() && !redirect {
			if strings.HasPrefix(one.Status, "2") && one.Status != "204" {
				t, err := m.typeOf(ctx, one)
				return choice{url: u, capture: one, mime: t}, nil, err
			}
			why = cmp.Or(why, &m.result.Errors)
			continue
		}
		// The index does not say where a redirect leads, nor what a revisit is.
		c, not, err := m.look(ctx, u, one)
		if not == nil || err != nil {
			return c, nil, err
		}
		why = cmp.Or(why, not)
	}
	return c, why, nil
}

// look reads the header of a capture. If it is neither a file nor a redirect that can be followed, or
// cannot be read, why is the count that it belongs to.
func (m *Mirror) look(ctx context.Context, u weburl.URL, one captures.Capture) (c choice, why *int64, err error) {
	msg, err := m.cfg.Archive.Open(ctx, one)
	if errors.Is(err, message.ErrLayers) {
		msg, err = m.cfg.Archive.OpenCoded(ctx, one)
	}
	unreadable, ok := errors.AsType[*warc.UnreadableError](err)
	switch {
	case errors.Is(err, warc.ErrNoOriginal):
		return c, &m.result.NoOriginal, nil
	case ok:
		if m.counting {
			m.fault(unreadable.Path, unreadable.Err)
		}
		return c, &m.result.Damaged, nil
	case err != nil:
		return c, nil, err
	}
	defer msg.Close()
	c = choice{url: u, capture: one}
	location := msg.Header.Get("Location")
	switch {
	case msg.Status >= 200 && msg.Status < 300 && msg.Status != 204:
		c.mime = msg.Type()
		return c, nil, nil
	case msg.Status < 300 || msg.Status >= 400 || location == "":
		return c, &m.result.Errors, nil
	}
	if c.target, err = u.Resolve(location); err != nil || c.target == u {
		return c, &m.result.Nowhere, nil
	}
	return c, nil, nil
}

// typeOf returns the media type of a capture that is no revisit. It opens the record if the index does not tell the
// type. The type of a record that cannot be read is unknown.
func (m *Mirror) typeOf(ctx context.Context, one captures.Capture) (message.Type, error) {
	if t := one.Type(); t.Essence != "" {
		return t, nil
	}
	msg, err := m.cfg.Archive.Open(ctx, one)
	if err != nil {
		if _, ok := errors.AsType[*warc.UnreadableError](err); ok {
			err = nil
		}
		return message.Type{}, err
	}
	defer msg.Close()
	return msg.Type(), nil
}

// sortMemory is how much memory each of the two sorts takes.
const sortMemory = 16 << 20

// plan gives each URL its name and writes the table of names.
//
// In the first sort a record is a folded name, a zero byte, 'd' for a directory or 'f' for a file, and
// for a file its URL, a zero byte and its name. So all that would collide is adjacent.
func (m *Mirror) plan(ctx context.Context) (err error) {
	names := extsort.New(m.fs, path.Join(m.temp, "names"), sortMemory, ctx)
	defer func() { err = errors.Join(err, names.Close()) }()
	urls := extsort.New(m.fs, path.Join(m.temp, "urls"), sortMemory, ctx)
	defer func() { err = errors.Join(err, urls.Close()) }()
	lastDir := ""
	err = m.choices(ctx, true, func(c choice) error {
		if !c.target.IsZero() {
			m.result.Redirects++
			return urls.Push(tableRecord(c.url, 'r', c.target.String()))
		}
		m.planned++
		name, unique := nameOf(c.url, c.mime.Essence)
		if dir := path.Dir(name); dir != lastDir {
			lastDir = dir
			for ; dir != "."; dir = path.Dir(dir) {
				if err := names.Push([]byte(fold(dir) + "\x00d")); err != nil {
					return err
				}
			}
		}
		if unique {
			return urls.Push(tableRecord(c.url, 'f', name))
		}
		return names.Push([]byte(fold(name) + "\x00f" + c.url.String() + "\x00" + name))
	})
	if err != nil {
		return err
	}
	taken := ""
	err = names.Each(func(rec []byte) error {
		folded, rest, _ := bytes.Cut(rec, []byte{0})
		if rest[0] == 'd' {
			taken = string(folded)
			return nil
		}
		rawURL, name, _ := bytes.Cut(rest[1:], []byte{0})
		u, err := weburl.Parse(string(rawURL))
		if err != nil {
			return fmt.Errorf("sorted name %q: %w", rec, err)
		}
		if string(folded) == taken {
			return urls.Push(tableRecord(u, 'f', uniqueName(string(name), u)))
		}
		taken = string(folded)
		return urls.Push(tableRecord(u, 'f', string(name)))
	})
	if err != nil {
		return err
	}
	return m.writeTable(urls)
}

const keySize = 16

func keyOf(u weburl.URL) (key [keySize]byte) {
	sum := sha256.Sum256([]byte(u.String()))
	return [keySize]byte(sum[:keySize])
}

// tableRecord returns a record of the second sort: the key of u, the kind and the value.
func tableRecord(u weburl.URL, kind byte, value string) []byte {
	key := keyOf(u)
	return append(append(key[:], kind), value...)
}

// A table holds the names of files and the targets of redirects, by URL. Most look-ups read nothing or two small parts
// of its files.
type table struct {
	index, entries disk.File
	count          int64
	// marks has the first 8 bytes of the key of every step-th record, at most maxMarks of them.
	marks []uint64
	step  int64
	block []byte // of the index, read last
	// known has the latest results, also of URLs that are not there.
	known map[[keySize]byte]entry
}

// An entry is the kind and the value of a URL. The kind is zero if the mirror does not have the URL.
type entry struct {
	kind  byte
	value string
}

const (
	minStep    = 128
	maxMarks   = 1 << 17 // 1 MB
	maxKnown   = 1 << 15 // some 8 MB
	recordSize = keySize + 8
)

// mark notes the key of the next record.
func (t *table) mark(key []byte) {
	t.step = cmp.Or(t.step, minStep)
	if len(t.marks) == maxMarks {
		for i := range maxMarks / 2 {
			t.marks[i] = t.marks[2*i]
		}
		t.marks = t.marks[:maxMarks/2]
		t.step *= 2
	}
	if t.count%t.step == 0 {
		t.marks = append(t.marks, binary.BigEndian.Uint64(key))
	}
	t.count++
}

func (m *Mirror) writeTable(urls *extsort.Queue) error {
	index, entries := path.Join(m.temp, "index"), path.Join(m.temp, "entries")
	offset := int64(0)
	err := disk.WriteStream(m.fs, index, func(iw io.Writer) error {
		return disk.WriteStream(m.fs, entries, func(ew io.Writer) error {
			return urls.Each(func(rec []byte) error {
				entry := append([]byte{rec[keySize]}, 0, 0, 0, 0)
				binary.BigEndian.PutUint32(entry[1:], uint32(len(rec)-keySize-1))
				entry = append(entry, rec[keySize+1:]...)
				line := binary.BigEndian.AppendUint64(bytes.Clone(rec[:keySize]), uint64(offset))
				offset += int64(len(entry))
				m.table.mark(rec[:keySize])
				if _, err := iw.Write(line); err != nil {
					return err
				}
				_, err := ew.Write(entry)
				return err
			})
		})
	})
	if err != nil {
		return err
	}
	if m.table.index, err = m.fs.OpenFile(index, os.O_RDONLY, 0); err != nil {
		return err
	}
	m.table.entries, err = m.fs.OpenFile(entries, os.O_RDONLY, 0)
	return err
}

func (t *table) close() error {
	var errs []error
	for _, f := range []disk.File{t.index, t.entries} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// find returns the kind and the value for u. ok is false if the mirror does not have it.
func (t *table) find(u weburl.URL) (kind byte, value string, ok bool, err error) {
	key := keyOf(u)
	e, known := t.known[key]
	if !known {
		if e, err = t.read(key); err != nil {
			return 0, "", false, err
		}
		if t.known == nil || len(t.known) == maxKnown {
			t.known = map[[keySize]byte]entry{}
		}
		t.known[key] = e
	}
	return e.kind, e.value, e.kind != 0, nil
}

// read finds a key in the files.
func (t *table) read(key [keySize]byte) (e entry, err error) {
	first := binary.BigEndian.Uint64(key[:])
	low, _ := slices.BinarySearch(t.marks, first)
	high := low
	for high < len(t.marks) && t.marks[high] == first { // the record may be on both sides of a mark
		high++
	}
	from := max(0, int64(low)-1) * t.step
	n := min(int64(high)*t.step, t.count) - from
	if n <= 0 {
		return e, nil
	}
	t.block = slices.Grow(t.block[:0], int(n)*recordSize)[:n*recordSize]
	if _, err := t.index.ReadAt(t.block, from*recordSize); err != nil && err != io.EOF {
		return e, err
	}
	at := func(i int) []byte { return t.block[i*recordSize:][:recordSize] }
	i, found := sort.Find(int(n), func(i int) int { return bytes.Compare(key[:], at(i)[:keySize]) })
	if !found {
		return e, nil
	}
	offset := int64(binary.BigEndian.Uint64(at(i)[keySize:]))
	var head [5]byte
	if _, err := t.entries.ReadAt(head[:], offset); err != nil {
		return e, err
	}
	text := make([]byte, binary.BigEndian.Uint32(head[1:]))
	if _, err := t.entries.ReadAt(text, offset+int64(len(head))); err != nil {
		return e, err
	}
	return entry{head[0], string(text)}, nil
}

// maxRedirects is how many redirects are followed from one link.
const maxRedirects = 10

// fileOf returns the name of the file to which a link to u leads, over redirects. If the archive has
// u only with the other scheme, that one counts.
func (t *table) fileOf(u weburl.URL) (name string, ok bool, err error) {
	for range maxRedirects {
		kind, value, ok, err := t.find(u)
		if err == nil && !ok {
			if other, bad := weburl.Parse(otherScheme(u)); bad == nil {
				kind, value, ok, err = t.find(other)
			}
		}
		if err != nil || !ok {
			return "", false, err
		}
		if kind == 'f' {
			return value, true, nil
		}
		if u, err = weburl.Parse(value); err != nil {
			return "", false, err
		}
	}
	return "", false, nil
}

func otherScheme(u weburl.URL) string {
	if rest, ok := strings.CutPrefix(u.String(), "https:"); ok {
		return "http:" + rest
	}
	return "https:" + strings.TrimPrefix(u.String(), "http:")
}
