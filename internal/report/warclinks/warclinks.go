package warclinks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"github.com/orbweaver/orbweaver/internal/linklog"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/extsort"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/parse"
)

// A Config says how Read reads.
type Config struct {
	// FS is the file system of the WARC files. Nil means the machine's.
	FS disk.FS
	// Sort is for the temporary files. Its Stop is called often, and at each record.
	Sort extsort.Config
	// Parse says which links are found. Texts is always set.
	Parse parse.Options
	// MaxDecoded bounds the part of a decompressed body that is searched for links, in bytes. Zero means 16 MiB.
	MaxDecoded int64
	// Step is called at each record, if it is not nil. All passes together read total bytes, and have read done.
	Step func(done, total int64)
}

// A Result counts what Read could not use.
type Result struct {
	Records int64 // of all types, in the first pass
	// Damaged is the number of damaged places, after each of which Read goes on with the next record that it finds.
	// First says where the first of them is, and what it is.
	Damaged int64
	First   string
	// NoOriginal is the number of pages without links because they are revisits and no file has the original.
	NoOriginal int64
	// Cut is the number of pages with a body over MaxDecoded, or with one that could not be decoded to its end. The
	// links before that count.
	Cut int64
}

var errNotRegular = errors.New("not a regular file, which could be read twice")

// A reader is a Read.
type reader struct {
	Config
	fn    func(p *linklog.PageLine, status, links bool) error
	res   Result
	files []string
	sizes []int64 // in bytes, in the first pass; a running crawl may add more
	at    int     // the file that is read
	done  int64
	total int64

	visits   *linklog.Visits
	payloads *extsort.Queue
	copies   *extsort.Queue

	statuses, links *roaring64.Bitmap // numbers of records
	copied          *roaring64.Bitmap // revisits whose original is in the files
	sitemaps        *roaring64.Bitmap

	rec []byte
}

// Read calls fn for the pages of WARC files, in the order of the files and their records. status reports that the page
// is the newest of its URL, links that it has the page's links, each with its Target and Kind. Read may call fn for a
// page twice: once with its status and once with its links. It has no Time, and is valid until fn returns. Read
// reads the files twice. An error is one of the disk, or the first of Stop or fn.
func Read(ctx context.Context, files []string, c Config, fn func(p *linklog.PageLine, status, links bool) error) (
	res Result, err error) {
	c.Parse.Texts = true
	r, err := newReader(files, c)
	if err != nil {
		return Result{}, err
	}
	r.fn, r.visits, r.sitemaps = fn, linklog.NewVisits(c.Sort), roaring64.New()
	r.payloads, r.copies, r.total = c.Sort.Queue("payloads"), c.Sort.Queue("copies"), 2*r.total
	defer func() { err = errors.Join(err, r.visits.Close(), r.payloads.Close(), r.copies.Close()) }()
	if err := r.first(ctx); err != nil {
		return r.res, err
	}
	if r.statuses, r.links, err = r.visits.Current(); err != nil {
		return r.res, err
	}
	if err := r.originals(); err != nil {
		return r.res, err
	}
	err = r.second(ctx)
	return r.res, err
}

// newReader returns a reader that reads the files once.
func newReader(files []string, c Config) (*reader, error) {
	c.FS = cmp.Or(c.FS, disk.OS)
	c.MaxDecoded = cmp.Or(c.MaxDecoded, 16<<20)
	r := &reader{Config: c, files: files}
	for _, name := range files {
		st, err := c.FS.Stat(name)
		if err != nil {
			return nil, err
		}
		if !st.Mode().IsRegular() {
			return nil, &fs.PathError{Op: "read", Path: name, Err: errNotRegular}
		}
		r.sizes = append(r.sizes, st.Size())
		r.total += st.Size()
	}
	return r, nil
}

// each calls fn for each record of all files, and next after it if the record was whole. Both passes give a record the
// same number. note counts the damage.
func (r *reader) each(note bool, fn func(n uint64, rec *warc.Record) error, next func() error) error {
	n := uint64(0)
	for i, name := range r.files {
		if err := r.file(i, name, note, &n, fn, next); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) open(name string) (disk.File, error) {
	f, err := r.FS.OpenFile(name, os.O_RDONLY, 0)
	if final, open := strings.CutSuffix(name, ".open"); open && errors.Is(err, fs.ErrNotExist) {
		f, err = r.FS.OpenFile(final, os.O_RDONLY, 0) // the crawl has finished the file meanwhile
	}
	return f, err
}

func (r *reader) file(i int, name string, note bool, n *uint64, fn func(n uint64, rec *warc.Record) error,
	next func() error) error {
	f, err := r.open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	before := r.done
	r.at = i
	rd := warc.NewReader(io.NewSectionReader(f, 0, r.sizes[i]))
	at := int64(0)
	for {
		rec, err := rd.Next()
		if err == nil {
			*n++
			at = rec.Offset
			if r.Sort.Stop != nil {
				if err := r.Sort.Stop.Err(); err != nil {
					return err
				}
			}
			if r.Step != nil {
				r.Step(before+at, r.total)
			}
			if err := fn(*n, rec); err != nil {
				return err
			}
			if err = rd.Finish(); err == nil {
				if err := next(); err != nil {
					return err
				}
				continue
			}
		}
		if err == io.EOF {
			break
		}
		if !errors.Is(err, warc.ErrDamaged) {
			return fmt.Errorf("%s: %w", name, err)
		}
		_, skip := rd.Skip()
		if skip != nil && skip != io.EOF {
			return fmt.Errorf("%s: %w", name, skip)
		}
		// The end of a file that is being written may be incomplete.
		if note && (skip == nil || !strings.HasSuffix(name, ".open")) {
			if r.res.Damaged++; r.res.First == "" {
				r.res.First = name + ": " + err.Error()
			}
		}
		if skip == io.EOF {
			break
		}
	}
	r.done = before + r.sizes[i]
	return nil
}
