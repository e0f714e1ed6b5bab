package segment

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/extsort"
	"github.com/orbweaver/orbweaver/internal/store/lines"
	"github.com/orbweaver/orbweaver/internal/store/object"
	"github.com/orbweaver/orbweaver/internal/store/remote"
	"github.com/orbweaver/orbweaver/internal/store/zipnum"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// An IndexStore is a Store that is read, too.
type IndexStore interface {
	Store
	ReadTagged(ctx context.Context, key, tag string, offset, length int64) ([]byte, error)
	Delete(ctx context.Context, key string) error
}

const (
	indexingFolder = "indexing"     // beside the folder segments, while SendIndex works
	sortMemory     = 16 << 20       // bytes
	maxIndexLine   = 1 << 20        // bytes
	uploadAge      = 24 * time.Hour // of uploads in parts that no agent goes on with
)

// SendIndex replaces the merged index of the crawl in the store by that of the segments that the store has, of all
// agents. It reads their indexes here or in the store, with bounded memory. While it works, and after a kill until it
// works again, the crawl directory has a folder with about as many bytes as these have. SendIndex writes nothing if the
// store has no segment, the index that it would write, or more segments than the index can name (about 10,000).
//
// A reader finds the old index or the new one: index.idx is replaced last and names its file of blocks. That of the
// index before stays for readers that have begun. Older ones are deleted.
func (c *Committer) SendIndex(ctx context.Context, store IndexStore) error {
	for range listTries {
		err := c.sendIndex(ctx, store)
		if _, begun := errors.AsType[*object.ExistsError](err); !begun && !errors.Is(err, object.ErrChanged) &&
			!errors.Is(err, remote.ErrReplaced) {
			return err
		}
	}
	return nil // another agent has sent one meanwhile
}

// sendIndex is one try of SendIndex. It looks at the index before it lists the segments, so that it does not replace a
// newer one.
func (c *Committer) sendIndex(ctx context.Context, store IndexStore) (err error) {
	fsys := cmp.Or(c.FS, disk.OS)
	tmp := filepath.Join(filepath.Dir(warc.SegmentsDir(c.Dir, c.Crawl)), indexingFolder)
	if err := fsys.RemoveAll(tmp); err != nil {
		return err
	}
	base := path.Join(warc.CrawlData, c.Crawl)
	key := path.Join(base, warc.MergedIndex)
	was, err := store.Stat(ctx, key)
	if err != nil && !errors.Is(err, object.ErrNotFound) {
		return err
	}
	when := object.Condition{Mutable: true, IfTag: was.Tag, IfAbsent: err != nil}
	far := remote.New(ctx, store, "", remote.Config{Memory: sortMemory})
	names, err := c.inStore(far)
	if err != nil || len(names) == 0 || len(strings.Join(names, ", ,")) > zipnum.MaxSegments {
		return err
	}
	old, err := warc.ReadMerged(far, key)
	switch {
	case err == nil && slices.Equal(old.Segments, names):
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, zipnum.ErrDamaged):
		return err
	}
	if err := warc.MakeDirs(fsys, c.Dir, tmp); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fsys.RemoveAll(tmp)) }()
	sum := sha256.Sum256([]byte(c.Software + "\n" + strings.Join(names, "\n")))
	blocks := warc.MergedBlocks(fmt.Sprintf("%x", sum[:8]))
	if err := c.mergeIndexes(ctx, fsys, far, tmp, blocks, names); err != nil {
		return err
	}
	// A kill may have left uploads in parts, which cost money. Without the right to list them they stay.
	front := path.Join(base, warc.MergedFront)
	_, _ = store.Abort(ctx, front, clock.Or(c.Clock).Now().Add(-uploadAge))
	if err := putFile(ctx, fsys, store, filepath.Join(tmp, blocks), path.Join(base, blocks),
		object.Condition{Mutable: true}); err != nil {
		return err
	}
	if err := putFile(ctx, fsys, store, filepath.Join(tmp, warc.MergedIndex), key, when); err != nil {
		return err
	}
	page, err := store.List(ctx, front, "", object.MaxList)
	for _, o := range page.Objects {
		if name := path.Base(o.Key); name != blocks && name != old.Filename && warc.IsMergedBlocks(name) {
			_ = store.Delete(ctx, o.Key) // without the right to delete they stay
		}
	}
	return err
}

// inStore returns the names of the complete segments of a store, sorted.
func (c *Committer) inStore(far disk.FS) (names []string, err error) {
	entries, err := far.ReadDir(c.prefix())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if _, bad := far.Stat(path.Join(c.prefix(), e.Name(), SuccessName)); bad == nil {
			names = append(names, e.Name())
		} else if !errors.Is(bad, fs.ErrNotExist) {
			return nil, bad
		}
	}
	return names, err
}

// mergeIndexes writes the merged index of segments into a folder. An index that is not here is read in the store.
func (c *Committer) mergeIndexes(ctx context.Context, fsys, far disk.FS, tmp, blocks string, names []string) error {
	q := extsort.New(fsys, filepath.Join(tmp, "sort"), sortMemory, nil)
	defer q.Close() // the caller removes the files
	for _, name := range names {
		f, err := fsys.OpenFile(filepath.Join(c.path(name), IndexName), os.O_RDONLY, 0)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !committed(fsys, c.path(name)) {
			if f != nil {
				f.Close() // it was only read
			}
			f, err = far.OpenFile(path.Join(c.prefix(), name, IndexName), os.O_RDONLY, 0)
		}
		if err != nil {
			return err
		}
		err = pushLines(ctx, q, f, nil)
		if f.Close(); err != nil { // it was only read
			return fmt.Errorf("merge the index of segment %s: %w", name, err)
		}
	}
	return disk.WriteStream(fsys, filepath.Join(tmp, warc.MergedIndex), func(index io.Writer) error {
		return disk.WriteStream(fsys, filepath.Join(tmp, blocks), func(out io.Writer) error {
			z := zipnum.NewWriter(out, index, blocks)
			z.Segments = names
			var last []byte // a line that is in two indexes comes once
			n := 0
			err := q.Each(func(line []byte) error {
				if n++; n%1024 == 0 && ctx.Err() != nil {
					return ctx.Err()
				}
				if bytes.Equal(line, last) {
					return nil
				}
				last = append(last[:0], line...)
				return z.Add(line)
			})
			return errors.Join(err, z.Close())
		})
	})
}

// pushLines adds the lines of an index to a sort, or what change makes of them.
func pushLines(ctx context.Context, q *extsort.Queue, f io.Reader, change func([]byte) ([]byte, error)) error {
	r := lines.NewReader(f, 64<<10, maxIndexLine)
	r.Strict = true
	for n := 1; ; n++ {
		line, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if errors.Is(err, bufio.ErrTooLong) || err == io.ErrUnexpectedEOF {
			err = warc.ErrDamaged
		}
		if err == nil && n%1024 == 0 {
			err = ctx.Err()
		}
		if err == nil && change != nil {
			line, err = change(line)
		}
		if err != nil {
			return fmt.Errorf("%s, line %d: %w", IndexName, n, err)
		}
		if err := q.Push(line); err != nil {
			return err
		}
	}
}

// putFile puts a file into the store. It is no error if the store has it already.
func putFile(ctx context.Context, fsys disk.FS, store Store, name, key string, when object.Condition) error {
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close() // it was only read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	_, err = store.Put(ctx, key, io.NewSectionReader(f, 0, info.Size()), when)
	if exists, ok := errors.AsType[*object.ExistsError](err); ok && exists.Same {
		return nil
	}
	return err
}
