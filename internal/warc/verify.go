package warc

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/orbweaver/orbweaver/internal/web/message"
)

// maxProblems is how many problems a Report lists, errors before warnings. It counts all of them.
const maxProblems = 1000

// NoOffset is the offset of a problem that is of no record.
const NoOffset = -1

// A Problem is one fault of a WARC file, or of a segment.
type Problem struct {
	Offset int64  `json:"offset"` // of the record, or NoOffset
	ID     string `json:"id,omitempty"`
	Text   string `json:"text"`
	// Warning means that readers can live with the fault; the file still counts as valid.
	Warning bool `json:"warning,omitempty"`
}

func (p Problem) String() string {
	kind := "error"
	if p.Warning {
		kind = "warning"
	}
	s := kind + ": " + p.Text
	if p.Offset != NoOffset {
		s = fmt.Sprintf("offset %d: %s", p.Offset, s)
	}
	if p.ID != "" {
		s += " " + p.ID
	}
	return s
}

// A Report is the result of Verify for one file.
type Report struct {
	Records  int64            `json:"records"`
	Bytes    int64            `json:"bytes"` // of content blocks
	Errors   int64            `json:"errors"`
	Warnings int64            `json:"warnings"`
	Skipped  int64            `json:"skipped"` // bytes of the file that could not be read as records
	Types    map[string]int64 `json:"types"`
	// Problems are at most 1000, in the order in which they were found: the first errors, and warnings if there is
	// room.
	Problems []Problem `json:"problems,omitempty"`
}

// OK reports whether the file has no errors. It may have warnings.
func (r *Report) OK() bool { return r.Errors == 0 }

// Add adds a problem to the report, and counts it. The report lists at most 1000: then an error takes the place of the
// last warning.
func (r *Report) Add(p Problem) {
	if p.Warning {
		r.Warnings++
	} else {
		r.Errors++
	}
	if !p.Warning && len(r.Problems) == maxProblems && r.Errors <= maxProblems { // so a warning is listed
		last := len(r.Problems) - 1
		for !r.Problems[last].Warning {
			last--
		}
		r.Problems = slices.Delete(r.Problems, last, last+1)
	}
	if len(r.Problems) < maxProblems {
		p.ID = p.ID[:min(len(p.ID), 80)]
		r.Problems = append(r.Problems, p)
	}
}

// Report returns a report with the flaws as errors.
func (f *Flaws) Report() *Report {
	r := &Report{Types: map[string]int64{}}
	for _, p := range f.Places {
		r.Add(Problem{Offset: p.Offset, Text: p.Text})
	}
	r.Errors += f.More
	return r
}

// maxIDs bounds how many record IDs a Verifier remembers, at 8 bytes each plus the overhead of the map. It is enough
// for an archive of several terabytes.
const maxIDs = 64 << 20

// A Verifier checks WARC files one after the other. It remembers record IDs across files and warns about repeated ones.
// The zero Verifier is ready for use. It is not safe for concurrent use.
type Verifier struct {
	rep  *Report
	buf  []byte
	ids  map[uint64]struct{}
	seed maphash.Seed
}

// Verify reads the whole WARC file r and checks that
//
//   - the file consists of records from end to end, each of its stated length and with two empty lines at its end;
//   - each record has a gzip member of its own;
//   - the fields that ISO 28500 makes mandatory are there;
//   - block digests and payload digests match.
//
// After damage it continues with the next record that it can find. The Report lists the faults of the file. An error
// means that r could not be read; the Report is then incomplete.
func (v *Verifier) Verify(r io.Reader) (*Report, error) {
	rep := &Report{Types: make(map[string]int64)}
	rd := NewReader(r)
	v.rep = rep
	if v.buf == nil {
		v.buf, v.ids, v.seed = make([]byte, 32<<10), map[uint64]struct{}{}, maphash.MakeSeed()
	}
	rd.Damaged = func(d *DamageError, skipped int64) {
		rep.Add(Problem{Offset: d.Offset, Text: d.Text})
		rep.Skipped += skipped
	}
	for {
		rec, err := rd.Next()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = v.record(rd, rec)
		}
		if err != nil && !errors.Is(err, ErrDamaged) { // Next notes damage
			return rep, err
		}
	}
	if rd.Empty > 0 {
		text := english.Plural(int(rd.Empty), "gzip member is empty", "gzip members are empty")
		rep.Add(Problem{Text: text, Warning: true})
	}
	if rep.Records == 0 && rep.Errors == 0 {
		rep.Add(Problem{Text: "the file has no record", Warning: true})
	}
	return rep, nil
}

// record checks one record, up to its end.
func (v *Verifier) record(rd *Reader, rec *Record) error {
	id := rec.Header.Value("WARC-Record-ID")
	fault := func(warning bool, format string, args ...any) {
		v.rep.Add(Problem{rec.Offset, id, fmt.Sprintf(format, args...), warning})
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
		fault(false, "the record ends in %q, not in two empty lines", rec.tail)
	}
	if rec.Shared && first {
		fault(false, "the gzip member holds more than this record")
	}
	return nil
}

var (
	recordTypes = []string{
		"warcinfo", "response", "resource", "request", "metadata", "revisit", "conversion", "continuation",
	}
	knownVersions = []string{"WARC/0.17", "WARC/0.18", "WARC/1.0", "WARC/1.1"}
)

// checkFields checks the fields that every record, and every record of its type, must have (ISO 28500, 5 and 6).
func checkFields(rec *Record, kind string, fault func(bool, string, ...any)) {
	if !slices.Contains(knownVersions, rec.Version) {
		fault(true, "unknown version %.20q", rec.Version)
	}
	for _, name := range [...]string{"WARC-Type", "WARC-Record-ID", "WARC-Date"} {
		if rec.Header.Value(name) == "" {
			fault(false, "no %s", name)
		}
	}
	if date := rec.Date(); date != "" {
		if _, ok := dateOf(date); !ok {
			fault(false, "WARC-Date %.40q is not a date", date)
		} else if _, ok := w3cDate(date); !ok {
			fault(true, "WARC-Date %.40q is not of the form 2006-01-02T15:04:05Z", date)
		}
	}
	for _, name := range [...]string{
		"WARC-Type", "WARC-Record-ID", "WARC-Date", "Content-Length", "WARC-Target-URI", "WARC-Block-Digest",
		"WARC-Payload-Digest",
	} {
		n := 0
		for _, f := range rec.Header {
			if strings.EqualFold(f.Name, name) {
				n++
			}
		}
		if n > 1 {
			fault(false, "%s appears %d times", name, n)
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
			fault(true, "unknown record type %.20q", kind)
		}
	}
	if kind == "revisit" && rec.Header.Value("WARC-Profile") == "" {
		fault(false, "revisit without WARC-Profile")
	}
}

// checkSegment checks the fields of segmented records (ISO 28500, 5.17 to 5.20 and 8). The first record has number 1.
// Its continuations have higher numbers and name its ID as their origin.
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

// repeated reports whether an earlier record had the same ID. It compares 64-bit hashes, so that two different IDs
// count as equal with a probability of 2^-64.
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

// digests reads the content and compares it with the digests in the header. For a chunked message it accepts a payload
// digest with or without the chunk sizes: the standard wants it without, but warcio, and therefore most files, has it
// with them.
func (v *Verifier) digests(rec *Record, kind string, fault func(bool, string, ...any)) error {
	segmented := rec.Header.Value("WARC-Segment-Number") != ""
	block, payload := v.digest(rec, "WARC-Block-Digest", fault), v.digest(rec, "WARC-Payload-Digest", fault)
	if kind == "revisit" || segmented {
		payload = nil // it is the digest of another record's payload
	}
	var plain *digest // of the payload without chunk sizes
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
			fault(true, "the HTTP header lacks the empty line at its end")
			payload = nil
		}
		if payload != nil {
			payload.hash.Write(rest)
			content = io.TeeReader(content, payload.hash)
			h := message.ReadHead(head)
			body := io.MultiReader(strings.NewReader(string(rest)), content)
			if unchunked, is := h.Coded(context.Background(), body); is {
				plain, _ = parseDigest(rec.Header.Value("WARC-Payload-Digest"))
				if _, err := io.CopyBuffer(onlyWriter{plain.hash}, unchunked, v.buf); err != nil {
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
		fault(false, "the content does not match WARC-Block-Digest %.60s", rec.Header.Value("WARC-Block-Digest"))
	}
	if payload != nil && !payload.matches() && (plain == nil || !plain.matches()) {
		fault(false, "the payload does not match WARC-Payload-Digest %.60s", rec.Header.Value("WARC-Payload-Digest"))
	}
	return nil
}

// onlyWriter hides ReadFrom, so that io.CopyBuffer uses its buffer.
type onlyWriter struct{ io.Writer }

func (v *Verifier) digest(rec *Record, name string, fault func(bool, string, ...any)) *digest {
	value := rec.Header.Value(name)
	if value == "" {
		return nil
	}
	d, ok := parseDigest(value)
	if !ok {
		fault(true, "%s %.40q has an unknown algorithm", name, value)
		return nil
	}
	if d.want == nil {
		fault(false, "%s %.60q is not a digest", name, value)
		return nil
	}
	return d
}
