package past

import (
	"errors"
	"fmt"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/orbweaver/orbweaver/internal/output/moved"
	"github.com/orbweaver/orbweaver/internal/output/segment"
)

// An elsewhere is the error of all segments that the store lacks, and whose files are only in another store, which
// cannot be read.
type elsewhere struct {
	segments int
	records  int64
	last     *moved.Unavailable
	store    string // the other one
}

// add counts a segment that could not be sent. It reports whether its files are elsewhere. store is the URL of the
// other store.
func (e *elsewhere) add(m segment.Manifest, store string, why error) bool {
	u, is := errors.AsType[*moved.Unavailable](why)
	if is {
		e.segments, e.last, e.store = e.segments+1, u, store
		e.records += m.Records
	}
	return is
}

func (e *elsewhere) Error() string {
	return fmt.Sprintf("%s with %s %s only in %s, which cannot be read now: %v. Make that store readable; if it is "+
		"lost, these records are lost for good", english.Plural(e.segments, "segment", ""), humanize.Comma(e.records),
		english.PluralWord(int(min(e.records, 2)), "record is", "records are"), e.store, e.last.Err)
}

func (e *elsewhere) Unwrap() error { return e.last }

// told returns the error, or nil if no segment is elsewhere.
func (e *elsewhere) told() error {
	if e.segments == 0 {
		return nil
	}
	return e
}
