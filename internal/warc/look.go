package warc

import (
	"errors"
	"io"
)

// maxLooked bounds how many bytes of a record's content a Looker can read: an HTTP header, and 1 MiB of the body.
const maxLooked = maxHTTPHead + 1<<20

// errLooked ends what a Looker reads of a record.
var errLooked = errors.New("no more of this record can be looked at")

// A Looker looks at the records of a WARC file while IndexWith reads them.
type Looker interface {
	// Look is called before a record is indexed. It may read the first 2 MiB of the record's content. Its error ends
	// IndexWith.
	Look(rec *Record) error
	// Passed is called when the record was read to its end. It is not called for a damaged one.
	Passed(rec *Record)
}

// IndexWith is Index for a caller that also looks at each record, so that the file is read and unpacked once.
func IndexWith(r io.Reader, name string, with Looker, emit func(line []byte) error) error {
	return indexFrom(r, 0, name, with, emit)
}

// looked is the beginning of a record's content, which is read twice: by a Looker and by Index.
type looked struct {
	looking bool
	bytes   []byte // what the Looker has read; its memory serves for one record after the other
	at      int    // the next byte that Read gives again
}

// look lets a Looker read a record, and then lets Read begin at the first byte of the content again.
func (l *looked) look(rec *Record, with Looker) error {
	l.looking, l.bytes, l.at = true, l.bytes[:0], 0
	rec.looked = l
	err := with.Look(rec)
	l.looking = false
	return err
}

// again gives bytes again that a Looker has read.
func (l *looked) again(p []byte) int {
	if l == nil || l.looking {
		return 0
	}
	n := copy(p, l.bytes[l.at:])
	l.at += n
	return n
}

// room returns how much of p a Looker may still read.
func (l *looked) room(p []byte) ([]byte, error) {
	if l == nil || !l.looking {
		return p, nil
	}
	if len(l.bytes) >= maxLooked {
		return nil, errLooked
	}
	return p[:min(len(p), maxLooked-len(l.bytes))], nil
}

// keep keeps what a Looker reads.
func (l *looked) keep(p []byte) {
	if l != nil && l.looking {
		l.bytes = append(l.bytes, p...)
	}
}
