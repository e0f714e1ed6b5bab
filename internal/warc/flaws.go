package warc

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
)

// Flaws is the error of WARC files that were read to their ends, but not as a whole. It lists their damaged places, and
// the captures that can have no index line. It wraps ErrDamaged.
type Flaws struct {
	Places []Flaw // the first maxFlaws
	More   int64  // places that are not listed
}

// A Flaw is a place of a WARC file.
type Flaw struct {
	File   string // empty if the caller has opened the file
	Offset int64  // or NoOffset
	Text   string
}

// maxFlaws is how many places Flaws lists.
const maxFlaws = 20

func (f Flaw) String() string {
	s := f.Text
	if f.Offset != NoOffset {
		s = (&DamageError{f.Offset, f.Text}).Error()
	}
	if f.File != "" {
		s = f.File + ": " + s
	}
	return s
}

// Error lists the places on one line.
func (f *Flaws) Error() string {
	var parts []string
	for _, p := range f.Places {
		parts = append(parts, p.String())
	}
	if f.More > 0 {
		parts = append(parts, fmt.Sprintf("and %d more places", f.More))
	}
	return strings.Join(parts, "; ")
}

// Unwrap returns ErrDamaged.
func (f *Flaws) Unwrap() error { return ErrDamaged }

// Refused returns a file that a package of files (WACZ) has, and that cannot be read, as Flaws: such an err wraps
// fs.ErrInvalid. It returns other errors as they are.
func Refused(file string, err error) error {
	if !errors.Is(err, fs.ErrInvalid) {
		return err
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return &Flaws{Places: []Flaw{{File: file, Offset: NoOffset, Text: "cannot be read: " + err.Error()}}}
}

// add notes places.
func (f *Flaws) add(places ...Flaw) {
	n := min(len(places), maxFlaws-len(f.Places))
	f.Places = append(f.Places, places[:n]...)
	f.More += int64(len(places) - n)
}

// take adds the flaws of err to f, as those of file. It returns err if that is another error.
func (f *Flaws) take(file string, err error) error {
	of, ok := errors.AsType[*Flaws](err)
	if !ok {
		return err
	}
	for _, p := range of.Places {
		p.File = file
		f.add(p)
	}
	f.More += of.More
	return nil
}

// err returns f as an error; nil if there is no flaw.
func (f *Flaws) err() error {
	if len(f.Places) == 0 {
		return nil
	}
	return f
}

// reader returns a Reader of the WARC file r, from the offset on at which r is. It continues behind damage and notes it
// in f.
func (f *Flaws) reader(r io.Reader, offset int64) *Reader {
	rd := NewReaderAt(r, offset)
	rd.Damaged = func(d *DamageError, _ int64) { f.add(Flaw{Offset: d.Offset, Text: d.Text}) }
	return rd
}

// A leftOut counts the captures that get no index line, by reason.
type leftOut map[string]struct{ n, first int64 }

// add counts a record without an index line, if it is a capture that a user would miss.
func (l leftOut) add(rec *Record) {
	switch rec.Type() {
	case "response", "resource", "revisit", "conversion":
	default:
		return
	}
	why := ""
	switch _, dated := dateOf(rec.Date()); {
	case rec.Shared:
		why = "in a gzip member with others, where no reader can start; \"warcio recompress\" gives each its own"
	case rec.URL() == "":
		why = "without WARC-Target-URI"
	case len(rec.URL()) > maxIndexURL:
		why = fmt.Sprintf("with a URL of more than %d bytes", maxIndexURL)
	case !dated:
		why = fmt.Sprintf("with the WARC-Date %.40q, which is not a date", rec.Date())
	default:
		return // its HTTP header says that it is not to be indexed
	}
	e, there := l[why]
	if !there {
		e.first = rec.Offset
	}
	e.n++
	l[why] = e
}

// to adds a place for each reason to f.
func (l leftOut) to(f *Flaws) {
	for _, why := range slices.Sorted(maps.Keys(l)) {
		text := fmt.Sprintf("not in the index: %s %s", english.Plural(int(l[why].n), "record", ""), why)
		f.add(Flaw{Offset: l[why].first, Text: text})
	}
}
