package warc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// seedWARCs adds small files of every form to the corpus.
func seedWARCs(f *testing.F) {
	f.Add([]byte(plainRecord))
	f.Add([]byte(gzipped(plainRecord) + gzipped(plainRecord)))
	f.Add([]byte(gzipped(plainRecord+plainRecord) + plainRecord))
	f.Add([]byte("WARC/0.17\nWARC-Type: response\nWARC-Target-URI: dns:a\nContent-Length: 0\n\n\n\n"))
	f.Add([]byte("WARC/1.0\r\nWARC-Type: response\r\nWARC-Date: 2020-01-02T03:04:05Z\r\n" +
		"WARC-Target-URI: http://a/\r\nWARC-Payload-Digest: sha1:AAAA\r\nContent-Type: application/http\r\n" +
		"Content-Length: 75\r\n\r\n" +
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: br\r\n\r\n5\r\n12345"))
	dir := f.TempDir()
	writeAll(f, testConfig(dir), everyKind()[:12])
	files := warcFiles(f, dir)
	if list, err := filepath.Glob(samples + "/*/example*.warc*"); err == nil {
		files = append(files, list...)
	}
	for _, file := range files {
		if b, err := os.ReadFile(file); err == nil && len(b) < 64<<10 {
			f.Add(b)
		}
	}
}

// fuzzLimit is how many bytes of a body are decoded, so that compression bombs do not use up the fuzzer's time.
const fuzzLimit = 32 << 20

func FuzzReader(f *testing.F) {
	seedWARCs(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewReader(bytes.NewReader(b))
		last, records := int64(-1), 0
		for {
			rec, err := r.Next()
			if err == nil {
				records++
				if rec.Offset < last || rec.Offset >= int64(len(b)) || rec.Offset == last && !rec.Shared {
					t.Fatalf("record at offset %d after offset %d of %d bytes", rec.Offset, last, len(b))
				}
				last = rec.Offset
				var body io.Reader
				if body, err = rec.Payload(t.Context()); err == nil {
					_, err = io.CopyN(io.Discard, body, fuzzLimit)
				}
				if errors.Is(err, io.EOF) || err != nil && r.err == nil {
					err = r.Finish() // a body that cannot be decoded does not make the file damaged
				}
				if err == nil && rec.Length > 0 && rec.Offset+rec.Length > int64(len(b)) {
					t.Fatalf("record at offset %d of %d bytes in a file of %d", rec.Offset, rec.Length, len(b))
				}
			}
			if err == io.EOF {
				return
			}
			if err != nil {
				if !errors.Is(err, ErrDamaged) {
					t.Fatalf("the error is not about the file's content: %v", err)
				}
				if _, err := r.Skip(); err == io.EOF {
					return
				} else if err != nil {
					t.Fatal(err)
				}
				last = -1
			}
			if records > len(b)*1000 {
				t.Fatalf("%d records in %d bytes", records, len(b))
			}
		}
	})
}

func FuzzVerify(f *testing.F) {
	seedWARCs(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		rep, err := new(Verifier).Verify(bytes.NewReader(b))
		must.Do(t, err)
		if len(rep.Problems) > maxProblems || rep.Skipped < 0 || rep.Skipped > int64(len(b)) {
			t.Fatalf("got %d problems, %d of %d bytes skipped", len(rep.Problems), rep.Skipped, len(b))
		}
	})
}

// A gazer is a Looker that reads all it can.
type gazer struct{}

func (gazer) Look(rec *Record) error {
	body, err := rec.Payload(context.Background())
	if err == nil {
		_, _ = io.Copy(io.Discard, body) // what is damaged is damaged for Index, too
	}
	return nil
}

func (gazer) Passed(*Record) {}

func FuzzIndex(f *testing.F) {
	seedWARCs(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		var lines, again bytes.Buffer
		err := Index(bytes.NewReader(b), "f.warc.gz", func(line []byte) error {
			if bytes.Count(line, []byte{'\n'}) != 1 || line[len(line)-1] != '\n' {
				t.Fatalf("%q is not one line", line)
			}
			lines.Write(line)
			l, err := ParseLine(line)
			must.Do(t, err)
			if back := l.AppendTo(nil); !bytes.Equal(back, line) && l.MIME != "" {
				t.Fatalf("line %q reads as %q", line, back)
			}
			return nil
		})
		if err != nil && !errors.Is(err, ErrDamaged) {
			t.Fatal(err)
		}
		// A Looker changes no line.
		other := IndexWith(bytes.NewReader(b), "f.warc.gz", gazer{}, func(line []byte) error {
			again.Write(line)
			return nil
		})
		if fmt.Sprint(other) != fmt.Sprint(err) || !bytes.Equal(again.Bytes(), lines.Bytes()) {
			t.Fatalf("%v with a look, %v without:\n%s\n%s", other, err, again.Bytes(), lines.Bytes())
		}
	})
}
