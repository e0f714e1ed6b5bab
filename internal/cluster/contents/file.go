package contents

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/entries"
)

// A Digest is the SHA-1 of a payload.
type Digest = [20]byte

// A Page is a page with a content.
type Page struct {
	URL string
	// Date is the date of its record, to the millisecond.
	Date time.Time
}

const (
	fileName  = "first"
	entryHead = 20 + 8
	// MaxURL is the longest URL of a page, in octets.
	MaxURL = 4096
	// maxMillis is the end of the year 9999, the last date that WARC can write.
	maxMillis = 253402300799999
)

// shape is the shape of the entries: the head is digest and date, the tail is the URL.
var shape = entries.Shape{Magic: "OWFIRST\x02", Head: entryHead, MaxTail: MaxURL}

// An entry is a content and its first page, as the file has them.
type entry struct {
	digest Digest
	page   Page
}

// appendTo encodes e.
func (e *entry) appendTo(b []byte) []byte {
	var head [entryHead]byte
	copy(head[:], e.digest[:])
	binary.LittleEndian.PutUint64(head[20:], uint64(e.page.Date.UnixMilli()))
	return shape.Encode(b, head[:], []byte(e.page.URL))
}

// entryOf reads head and tail of an entry.
func entryOf(data []byte) (e entry, err error) {
	ms := int64(binary.LittleEndian.Uint64(data[20:]))
	if ms < 0 || ms > maxMillis {
		return e, entries.ErrEntry
	}
	page := Page{URL: string(data[entryHead:]), Date: time.UnixMilli(ms).UTC()}
	return entry{Digest(data[:20]), page}, nil
}

// CheckPage returns an error for a page that cannot be in a Table.
func CheckPage(p Page) error {
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
