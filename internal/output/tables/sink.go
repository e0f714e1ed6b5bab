package tables

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

const (
	// defaultFileBytes is the size at which a file ends.
	defaultFileBytes = 512 << 20
	// defaultGroupBytes is the size of the values of a row group, before they are encoded and compressed. The writer
	// of a file holds one row group in memory.
	defaultGroupBytes = 64 << 20
	// dictionaryBytes is the size from which on a column of a row group does without a dictionary, as in Spark.
	dictionaryBytes = 1 << 20
	batchRows       = 64
	// boundBytes is the length of the bounds of a page in the page index, for sort keys with the same beginning.
	boundBytes = 64
)

// A sink writes the rows of one folder of a table.
type sink struct {
	fs         disk.FS
	dir        string // of the files
	id         string // in their names
	schema     *parquet.Schema
	sorted     string // the column by which the rows are sorted; empty: they are not
	fileBytes  int64
	groupBytes int64
	rowsOf     map[string]int64 // gets the rows of each file; nil: nobody asks

	out   counter
	w     *parquet.GenericWriter[any] // nil: no file is open
	batch []parquet.Row
	group int64 // bytes of the values in the row group, about

	rows, bytes int64
	ended       int64 // rows in files that have ended
	files       int
}

// newSink returns the sink of a folder. The names of its files depend on seed alone.
func newSink(fsys disk.FS, dir, seed string, columns []column, sorted string, cfg *Config) *sink {
	sum := sha256.Sum256([]byte("orbweaver tables " + seed))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80 // a UUID of version 8 (RFC 9562)
	h := hex.EncodeToString(sum[:16])
	s := &sink{
		fs: fsys, dir: dir, id: h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:],
		schema: schemaOf(columns), sorted: sorted, fileBytes: cfg.FileBytes, groupBytes: cfg.GroupBytes,
		rowsOf: cfg.rowsOf,
	}
	s.id = cmp.Or(cfg.segment, s.id)
	return s
}

// fileSuffix is the end of the names of all files.
const fileSuffix = ".c000.gz.parquet"

// add adds a row, whose values it copies.
func (s *sink) add(r *row) error {
	if s.w == nil {
		if err := s.open(); err != nil {
			return err
		}
	}
	s.batch = append(s.batch, slices.Clone(r.values))
	s.rows++
	s.group += r.size
	if len(s.batch) < batchRows && s.group < s.groupBytes {
		return nil
	}
	if err := s.flush(); err != nil || s.group < s.groupBytes {
		return err
	}
	if err := s.w.Flush(); err != nil {
		return err
	}
	if s.group = 0; s.out.n < s.fileBytes {
		return nil
	}
	return s.end()
}

func (s *sink) flush() error {
	_, err := s.w.WriteRows(s.batch)
	s.batch = s.batch[:0]
	return err
}

func (s *sink) open() error {
	if err := s.fs.MkdirAll(s.dir, 0o777); err != nil {
		return err
	}
	name := filepath.Join(s.dir, fmt.Sprintf("part-%05d-%s"+fileSuffix, s.files, s.id))
	f, err := s.fs.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	s.out = counter{f: f}
	options := []parquet.WriterOption{
		s.schema, parquet.Compression(&parquet.Gzip), parquet.DataPageVersion(1),
		parquet.DictionaryMaxBytes(dictionaryBytes), parquet.CreatedBy("orbweaver", "1", "0"),
		parquet.ColumnIndexSizeLimit(func([]string) int { return boundBytes }),
	}
	if s.sorted != "" {
		options = append(options,
			parquet.SortingWriterConfig(parquet.SortingColumns(parquet.Ascending(s.sorted))))
	}
	s.w = parquet.NewGenericWriter[any](&s.out, options...)
	s.files++
	return nil
}

// end ends the open file, if there is one.
func (s *sink) end() error {
	if s.w == nil {
		return nil
	}
	err := s.flush()
	if err == nil {
		err = s.w.Close()
	}
	if err == nil {
		err = s.out.f.Sync()
	}
	s.bytes += s.out.n
	if s.rowsOf != nil {
		s.rowsOf[s.out.f.Name()] = s.rows - s.ended
	}
	s.ended = s.rows
	s.w, s.group = nil, 0
	return errors.Join(err, s.out.f.Close())
}

// abort closes the open file, which is not complete.
func (s *sink) abort() error {
	if s.w == nil {
		return nil
	}
	s.w = nil
	return s.out.f.Close()
}

// A counter counts what a file gets.
type counter struct {
	f disk.File
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.f.Write(p)
	c.n += int64(n)
	return n, err
}

var _ io.Writer = (*counter)(nil)
