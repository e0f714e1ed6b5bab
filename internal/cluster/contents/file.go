package contents

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/entries"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// A Digest is the SHA-1 of a body without chunk sizes.
type Digest = [20]byte

// An Original is the page that had a content first.
type Original struct {
	URL string
	// Date is the date of its record, to the millisecond.
	Date time.Time
	// Stored is the digest of its payload as stored, if it is stored with chunk sizes; zero otherwise.
	Stored Digest
}

const (
	fileName  = "first"
	entryHead = 20 + 8
	// MaxURL is the longest URL of a page, in octets.
	MaxURL = 4096
	// maxMillis is the end of the year 9999, the last date that WARC can write.
	maxMillis = 253402300799999
)

// shape is the shape of the entries: the head is digest and date, the tail is warc.Original.Place of the page.
var shape = entries.Shape{Magic: "OWFIRST\x01", Head: entryHead, MaxTail: MaxURL + 1 + len(Digest{})}

// An entry is a content and its first page, as the file has them.
type entry struct {
	digest Digest
	page   Original
}

// appendTo encodes e.
func (e *entry) appendTo(b []byte) []byte {
	var head [entryHead]byte
	copy(head[:], e.digest[:])
	binary.LittleEndian.PutUint64(head[20:], uint64(e.page.Date.UnixMilli()))
	place := warc.Original{URL: e.page.URL, Stored: e.page.Stored}
	return shape.Encode(b, head[:], []byte(place.Place()))
}

// entryOf reads head and tail of an entry.
func entryOf(data []byte) (e entry, err error) {
	ms := int64(binary.LittleEndian.Uint64(data[20:]))
	if ms < 0 || ms > maxMillis {
		return e, entries.ErrEntry
	}
	var place warc.Original
	place.SetPlace(string(data[entryHead:]))
	page := Original{URL: place.URL, Date: time.UnixMilli(ms).UTC(), Stored: place.Stored}
	return entry{Digest(data[:20]), page}, nil
}

// CheckPage returns an error for a page that cannot be in a Table.
func CheckPage(p Original) error {
	switch ms := p.Date.UnixMilli(); {
	case p.URL == "":
		return errors.New("page without a URL")
	case len(p.URL) > MaxURL:
		return fmt.Errorf("URL of %d octets, at most %d", len(p.URL), MaxURL)
	case ms < 0 || ms > maxMillis:
		return fmt.Errorf("date %d ms", ms)
	}
	return nil
}
