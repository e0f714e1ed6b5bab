package warc

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"slices"
	"strconv"
	"strings"
)

// maxProblems is how many problems of a file a Report names; it counts all.
const maxProblems = 1000

// A Problem is one thing that is wrong with a file.
type Problem struct {
	Offset int64 // of the record
	ID     string
	Text   string
	// Warning is a thing that a reader can live with: it does not make the
	// file wrong.
	Warning bool
}

func (p Problem) String() string {
	kind := "error"
	if p.Warning {
		kind = "warning"
	}
	s := fmt.Sprintf("offset %d: %s: %s", p.Offset, kind, p.Text)
	if p.ID != "" {
		s += " " + p.ID
	}
	return s
}

// A Report is what Verify found.
type Report struct {
	Records  int64
	Bytes    int64 // of content blocks
	Skipped  int64 // bytes of the file that could not be read as records
	Types    map[string]int64
	Errors   int64
	Warnings int64
	Problems []Problem // the first 1000
}

// OK says that nothing is wrong.
func (r *Report) OK() bool { return r.Errors == 0 }

func (r *Report) add(p Problem) {
	if p.Warning {
		r.Warnings++
	} else {
		r.Errors++
	}
	if len(r.Problems) < maxProblems {
		p.ID = p.ID[:min(len(p.ID), 80)]
		r.Problems = append(r.Problems, p)
	}
}

// maxIDs bounds the record IDs that a Verifier compares, 8 bytes each and a
// map's overhead: an archive of several terabytes.
const maxIDs = 64 << 20

// A Verifier checks WARC files. It remembers record IDs from file to file, so
// that it can warn about one that is repeated. The zero Verifier is ready. It
// is not safe for concurrent use.
type Verifier struct {
	rep  *Report
	buf  []byte
	ids  map[uint64]struct{}
	seed maphash.Seed
}

// Verify checks one file with a Verifier of its own.
func Verify(r io.Reader) (*Report, error) { return new(Verifier).Verify(r) }

// Verify reads the whole WARC file r. It checks that the file consists of
// records from end to end, each as long as it says and with its end; that each
// has a gzip member of its own; the fields that ISO 28500 makes mandatory;
// block and payload digests. After damage it continues with the next record
// that it can find. The error is of reading r; the Report has the faults of the
// file.
func (v *Verifier) Verify(r io.Reader) (*Report, error) {
	rep := &Report{Types: make(map[string]int64)}
	rd := NewReader(r)
	v.rep = rep
	if v.buf == nil {
		v.buf, v.ids, v.seed = make([]byte, 32<<10), map[uint64]struct{}{}, maphash.MakeSeed()
	}
	for {
		rec, err := rd.Next()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = v.record(rd, rec)
		}
		if err == nil {
			continue
		}
		var damage *DamageError
		if !errors.As(err, &damage) {
			return rep, err
		}
		rep.add(Problem{Offset: damage.Offset, Text: damage.Text})
		n, err := rd.Skip()
		rep.Skipped += n
		if err == io.EOF {
			break
		}
		if err != nil {
			return rep, err
		}
	}
	if rd.Empty > 0 {
		rep.add(Problem{Text: fmt.Sprintf("%d empty gzip members", rd.Empty), Warning: true})
	}
	if rep.Records == 0 && rep.Errors == 0 {
		rep.add(Problem{Text: "no record", Warning: true})
	}
	return rep, nil
}

// record checks one record to its end.
func (v *Verifier) record(rd *Reader, rec *Record) error {
	id := rec.Header.Value("WARC-Record-ID")
	fault := func(warning bool, format string, args ...any) {
		v.rep.add(Problem{rec.Offset, id, fmt.Sprintf(format, args...), warning})
	}
	v.rep.Records++
	v.rep.Bytes += rec.Size
	kind := rec.Type()
	if slices.Contains(recordTypes, kind) {
		v.rep.Types[kind]++
	} else {
		v.rep.Types["other"]++
	}
	checkFields(rec, kind, fault)
	checkSegment(rec, kind, fault)
	if v.repeated(id) {
		fault(true, "another record has the same WARC-Record-ID")
	}
	if err := v.digests(rec, kind, fault); err != nil {
		return err
	}
	first := !rec.Shared
	if err := rd.Finish(); err != nil {
		return err
	}
	if string(rec.tail) != recordEnd {
		fault(false, "record ends in %q, not in an empty line twice", rec.tail)
	}
	if rec.Shared && first {
		fault(false, "gzip member holds more than this record")
	}
	return nil
}

var (
	recordTypes   = []string{"warcinfo", "response", "resource", "request", "metadata", "revisit", "conversion", "continuation"}
	knownVersions = []string{"WARC/0.17", "WARC/0.18", "WARC/1.0", "WARC/1.1"}
)

// checkFields looks for the fields that every record, and every record of its
// type, shall have (ISO 28500, 5 and 6).
func checkFields(rec *Record, kind string, fault func(bool, string, ...any)) {
	if !slices.Contains(knownVersions, rec.Version) {
		fault(true, "version %.20q", rec.Version)
	}
	for _, name := range [...]string{"WARC-Type", "WARC-Record-ID", "WARC-Date"} {
		if rec.Header.Value(name) == "" {
			fault(false, "no %s", name)
		}
	}
	if date := rec.Date(); date != "" {
		if _, ok := dateOf(date); !ok {
			fault(false, "WARC-Date %.40q is no date", date)
		}
	}
	for _, name := range [...]string{"WARC-Type", "WARC-Record-ID", "WARC-Date", "Content-Length", "WARC-Target-URI", "WARC-Block-Digest", "WARC-Payload-Digest"} {
		n := 0
		for _, f := range rec.Header {
			if strings.EqualFold(f.Name, name) {
				n++
			}
		}
		if n > 1 {
			fault(false, "%s %d times", name, n)
		}
	}
	switch kind {
	case "response", "resource", "request", "revisit", "conversion", "continuation":
		if rec.URL() == "" {
			fault(false, "%s without WARC-Target-URI", kind)
		}
	case "":
	default:
		if !slices.Contains(recordTypes, kind) {
			fault(true, "type %.20q", kind)
		}
	}
	if kind == "revisit" && rec.Header.Value("WARC-Profile") == "" {
		fault(false, "revisit without WARC-Profile")
	}
}

// checkSegment looks at the fields of segmented records (ISO 28500, 5.17 to
// 5.20 and 8): the first has number 1, its continuations have higher ones and
// name its ID as their origin.
func checkSegment(rec *Record, kind string, fault func(bool, string, ...any)) {
	const number, origin = "WARC-Segment-Number", "WARC-Segment-Origin-ID"
	hasOrigin := rec.Header.Value(origin) != ""
	continuation := kind == "continuation"
	if continuation && !hasOrigin {
		fault(false, "continuation without %s", origin)
	}
	if !continuation && hasOrigin {
		fault(true, "%.20s with a %s, which only a continuation has", kind, origin)
	}
	text := rec.Header.Value(number)
	n, err := strconv.ParseUint(text, 10, 63)
	switch {
	case text == "":
		if continuation {
			fault(true, "continuation without %s", number)
		}
	case err != nil || n == 0:
		fault(true, "%s %.20q is not a number from 1", number, text)
	case continuation && n == 1:
		fault(true, "continuation with %s 1, which is the first record's", number)
	case !continuation && n > 1:
		fault(true, "%.20s with %s %d, which is a continuation's", kind, number, n)
	}
}

// repeated reports whether a record before this one had the ID. Two IDs in 2^64
// are taken for one.
func (v *Verifier) repeated(id string) bool {
	if id == "" {
		return false
	}
	h := maphash.String(v.seed, id)
	if _, ok := v.ids[h]; ok {
		return true
	}
	if len(v.ids) < maxIDs {
		v.ids[h] = struct{}{}
	}
	return false
}

// digests reads the content and compares it to the digests in the header. The
// payload of a chunked message counts with its chunk sizes or without: the
// standard wants the one, warcio and with it most files have the other.
func (v *Verifier) digests(rec *Record, kind string, fault func(bool, string, ...any)) error {
	segmented := rec.Header.Value("WARC-Segment-Number") != ""
	block, payload := v.digest(rec, "WARC-Block-Digest", fault), v.digest(rec, "WARC-Payload-Digest", fault)
	if kind == "revisit" || segmented {
		payload = nil // of another record
	}
	var plain *digest // payload without chunks
	var content io.Reader = rec
	if block != nil {
		content = io.TeeReader(content, block.hash)
	}
	if rec.isHTTP() && (kind == "response" || kind == "request" || kind == "revisit") {
		head, rest, found, err := readHeadFrom(content)
		if err != nil {
			return err
		}
		if !found {
			fault(true, "HTTP header without the empty line at its end")
			payload = nil
		}
		if payload != nil {
			payload.hash.Write(rest)
			content = io.TeeReader(content, payload.hash)
			if parseHead(head).Chunked {
				plain, _ = parseDigest(rec.Header.Value("WARC-Payload-Digest"))
				chunks := newDechunker(io.MultiReader(strings.NewReader(string(rest)), content))
				if _, err := io.CopyBuffer(onlyWriter{plain.hash}, chunks, v.buf); err != nil {
					return err
				}
			}
		}
	} else if payload != nil {
		content = io.TeeReader(content, payload.hash)
	}
	if _, err := io.CopyBuffer(onlyWriter{io.Discard}, content, v.buf); err != nil {
		return err
	}
	if block != nil && !block.matches() {
		fault(false, "content does not match WARC-Block-Digest %.60s", rec.Header.Value("WARC-Block-Digest"))
	}
	if payload != nil && !payload.matches() && (plain == nil || !plain.matches()) {
		fault(false, "payload does not match WARC-Payload-Digest %.60s", rec.Header.Value("WARC-Payload-Digest"))
	}
	return nil
}

// onlyWriter keeps io.Copy to its buffer.
type onlyWriter struct{ io.Writer }

func (v *Verifier) digest(rec *Record, name string, fault func(bool, string, ...any)) *digest {
	value := rec.Header.Value(name)
	if value == "" {
		return nil
	}
	d, ok := parseDigest(value)
	if !ok {
		fault(true, "%s %.40q is of no known algorithm", name, value)
		return nil
	}
	if d.want == nil {
		fault(false, "%s %.60q is no digest", name, value)
		return nil
	}
	return d
}
