package segment

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/output/tables"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/object"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// A Store takes the files of segments. *object.Store is one.
type Store interface {
	Put(ctx context.Context, key string, c object.Content, when object.Condition) (object.Info, error)
	List(ctx context.Context, prefix, after string, max int) (object.Page, error)
	Stat(ctx context.Context, key string) (object.Info, error)
	Abort(ctx context.Context, prefix string, before time.Time) (n int, err error)
	// Location returns the URL of an object, without credentials.
	Location(key string) string
}

// StoredName is a file in the folder of a segment whose files are all in a store: the URL of the store. The store has
// no such object.
const StoredName = "_STORED"

// maxURL bounds the URL of a store, in bytes.
const maxURL = 64 << 10

// StoreOf returns the URL of the store that has the segment in a folder. If none has it, the error is fs.ErrNotExist.
func StoreOf(fsys disk.FS, folder string) (url string, err error) {
	b, err := disk.ReadFile(fsys, filepath.Join(folder, StoredName), maxURL)
	return strings.TrimSpace(string(b)), err
}

// Sent counts the segments in a crawl directory that were sent to a store, as StoreOf tells. last is the key of the
// _SUCCESS of one of the last.
func Sent(fsys disk.FS, dir, url string) (n int, last string, err error) {
	crawls, err := warc.Crawls(fsys, dir)
	for _, crawl := range crawls {
		names, bad := warc.SegmentNames(fsys, dir, crawl)
		err = cmp.Or(err, bad)
		for _, name := range names {
			if in, _ := StoreOf(fsys, filepath.Join(warc.SegmentsDir(dir, crawl), name)); in == url {
				n, last = n+1, path.Join(warc.CrawlData, crawl, "segments", name, SuccessName)
			}
		}
	}
	return n, last, err
}

// Unsent returns the names of the committed segments that are not in the store, oldest first.
func (c *Committer) Unsent(store Store) (names []string, err error) {
	fsys := cmp.Or(c.FS, disk.OS)
	all, err := warc.SegmentNames(fsys, c.Dir, c.Crawl)
	for _, name := range all {
		if !committed(fsys, c.path(name)) {
			continue
		}
		in, bad := StoreOf(fsys, c.path(name))
		if bad != nil && !errors.Is(bad, fs.ErrNotExist) {
			return names, bad
		}
		if in != store.Location("") {
			names = append(names, name)
		}
	}
	return names, err
}

// Send puts the files of a committed segment into a store, _SUCCESS last, and notes it. A file that the store has with
// the same content is not sent again. If it has another one, the error says so. Send changes no other file here.
func (c *Committer) Send(ctx context.Context, store Store, name string) (m Manifest, err error) {
	fsys := cmp.Or(c.FS, disk.OS)
	folder := c.path(name)
	if m, err = ReadManifest(fsys, folder); err != nil {
		return m, fmt.Errorf("store segment %s: %w", name, err)
	}
	// A kill may have left uploads in parts, which cost money. Without the right to list them they stay.
	_, _ = store.Abort(ctx, path.Join(c.prefix(), name)+"/", clock.Or(c.Clock).Now())
	var files []string
	in := path.Join(c.prefix(), name)
	for _, f := range m.Files {
		files = append(files, path.Join(in, f.Name))
	}
	for _, t := range m.Tables { // behind the WARC files, which their rows name
		files = append(files, t.Name)
	}
	for _, file := range append(files, path.Join(in, ManifestName), path.Join(in, SuccessName)) {
		if err := c.sendFile(ctx, fsys, store, file); err != nil {
			return m, fmt.Errorf("store segment %s: %w", name, err)
		}
	}
	return m, disk.WriteFile(fsys, filepath.Join(folder, StoredName), []byte(store.Location("")+"\n"))
}

// sendFile puts a file of the crawl directory into the store.
func (c *Committer) sendFile(ctx context.Context, fsys disk.FS, store Store, key string) error {
	return putFile(ctx, fsys, store, filepath.Join(c.Dir, filepath.FromSlash(key)), key,
		object.Condition{IfAbsent: true}) // a kill may have come after it was sent
}

// prefix returns the beginning of the keys of all segments, without the slash at its end.
func (c *Committer) prefix() string { return path.Join(warc.CrawlData, c.Crawl, "segments") }

// listTries is how often SendLists begins again because another agent has written lists meanwhile.
const listTries = 5

// SendLists replaces the lists in the store by those of the segments that the store has, of all agents. It writes none
// if the store has no segment.
func (c *Committer) SendLists(ctx context.Context, store Store) error {
	for range listTries {
		err := c.sendLists(ctx, store)
		if _, begun := errors.AsType[*object.ExistsError](err); !begun && !errors.Is(err, object.ErrChanged) {
			return err
		}
	}
	return nil // the end of a run sends them again
}

// sendLists is one try of SendLists. It looks at the lists before their content is known, so that it does not replace
// newer ones.
func (c *Committer) sendLists(ctx context.Context, store Store) error {
	lists := map[string]*list{"segment.paths.gz": newList(), tablesList: newList()}
	when, complete := map[string]object.Condition{}, map[string]bool{}
	for name := range parts {
		lists[name] = newList()
	}
	for name := range lists {
		i, err := store.Stat(ctx, path.Join(warc.CrawlData, c.Crawl, name))
		if err != nil && !errors.Is(err, object.ErrNotFound) {
			return err
		}
		when[name] = object.Condition{Mutable: true, IfTag: i.Tag, IfAbsent: err != nil}
	}
	prefix, open := c.prefix()+"/", "" // the segment whose _SUCCESS has been read: it comes before the other files
	for after, more := "", true; more; {
		page, err := store.List(ctx, prefix, after, object.MaxList)
		if err != nil {
			return err
		}
		for _, o := range page.Objects {
			segment, file, _ := strings.Cut(strings.TrimPrefix(o.Key, prefix), "/")
			if file == SuccessName {
				open = segment
				complete[segment] = true
				lists["segment.paths.gz"].add(prefix + segment)
			}
			if segment != open {
				continue
			}
			for name, part := range parts {
				if path.Dir(file) == part && (part != "." || file == IndexName) {
					lists[name].add(o.Key)
				}
			}
		}
		after, more = page.Next, page.Next != ""
	}
	if open == "" { // the store has no segment
		return nil
	}
	for after, more := "", true; more; {
		page, err := store.List(ctx, indexTable(c.Crawl), after, object.MaxList)
		if err != nil {
			return err
		}
		for _, o := range page.Objects {
			if of, ok := tables.SegmentOf(o.Key); ok && complete[of] {
				lists[tablesList].add(o.Key)
			}
		}
		after, more = page.Next, page.Next != ""
	}
	for name, l := range lists {
		if err := l.zip.Close(); err != nil {
			return err
		}
		key := path.Join(warc.CrawlData, c.Crawl, name)
		_, err := store.Put(ctx, key, bytes.NewReader(l.text.Bytes()), when[name])
		if exists, ok := errors.AsType[*object.ExistsError](err); err != nil && !(ok && exists.Same) {
			return err
		}
	}
	return nil
}

// A list is a compressed list of paths.
type list struct {
	text bytes.Buffer
	zip  *gzip.Writer
}

func newList() *list {
	l := &list{}
	l.zip = gzip.NewWriter(&l.text)
	return l
}

func (l *list) add(path string) { _, _ = io.WriteString(l.zip, path+"\n") } // a buffer takes everything
