package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/fields"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// ErrRecord reports a damaged record.
var ErrRecord = errors.New("damaged journal record")

// ErrVersion reports a journal whose records another version of this program wrote.
var ErrVersion = errors.New("journal records of another version: continue with the program that started the " +
	"crawl, or begin it anew")

// MaxNumber is larger than the number of accepts of any crawl. Larger numbers are damage.
const MaxNumber = 1 << 36

// Version is the version of the kinds of records.
const Version = 1

func AppendCrawl(dst []byte, id keyset.Crawl) []byte {
	return append(append(dst, Version), id[:]...)
}

// DecodeCrawl reads the first record of a journal.
func DecodeCrawl(kind byte, p []byte) (id keyset.Crawl, err error) {
	if kind != Crawl || len(p) == 0 || p[0] != Version {
		return id, fmt.Errorf("%w: it begins with a record of kind %q, %x", ErrVersion, kind, p[:min(len(p), 1)])
	}
	if len(p) != 1+len(id) {
		return id, ErrRecord
	}
	copy(id[:], p[1:])
	return id, nil
}

// AppendSpan appends the encoding of when the crawl began (0: it has not), how long its runs took, and when this is
// written: uvarints, in microseconds, the times since 1970.
func AppendSpan(dst []byte, started time.Time, took time.Duration, now time.Time) []byte {
	return span(fields.Write(dst), &started, &took, &now).Written()
}

func span(c *fields.Codec, started *time.Time, took *time.Duration, written *time.Time) *fields.Codec {
	for _, t := range [...]*time.Time{started, written} {
		us := max(t.UnixMicro(), 0)
		if fields.Uint(c, &us); c.Reads() && us > 0 {
			*t = time.UnixMicro(us).UTC()
		}
		if t == started {
			c.Duration(took, time.Microsecond)
		}
	}
	return c
}

// DecodeSpan reads what AppendSpan wrote. Times that are not known are zero.
func DecodeSpan(src []byte) (started time.Time, took time.Duration, written time.Time, err error) {
	if !span(fields.Read(src), &started, &took, &written).Whole() {
		err = ErrRecord
	}
	return started, took, written, err
}

// AppendOriginal appends the encoding of a payload and the record that has it:
//
//	20 bytes SHA-1 of the body · 16 bytes record id · varint Unix milliseconds · Original.Place
func AppendOriginal(dst []byte, digest [20]byte, o warc.Original) []byte {
	return append(original(fields.Write(dst), &digest, &o).Written(), o.Place()...)
}

func original(c *fields.Codec, digest *[20]byte, o *warc.Original) *fields.Codec {
	c.Fixed(digest[:])
	c.Fixed(o.ID[:])
	c.Milli(&o.Date)
	return c
}

func DecodeOriginal(src []byte) (digest [20]byte, o warc.Original, err error) {
	c := original(fields.Read(src), &digest, &o)
	if !c.Ok() {
		return digest, o, ErrRecord
	}
	o.SetPlace(string(c.Rest()))
	return digest, o, nil
}

// KeysPiece is the largest number of keys in a record.
const KeysPiece = 4096

func AppendKeys(dst []byte, ks []link.Key) []byte {
	for _, k := range ks {
		dst = binary.BigEndian.AppendUint64(dst, k.Host)
		dst = binary.BigEndian.AppendUint64(dst, k.Path)
	}
	return dst
}

func DecodeKeys(dst []link.Key, src []byte) ([]link.Key, error) {
	if len(src)%16 != 0 {
		return dst, ErrRecord
	}
	for ; len(src) > 0; src = src[16:] {
		dst = append(dst, link.Key{Host: binary.BigEndian.Uint64(src), Path: binary.BigEndian.Uint64(src[8:])})
	}
	return dst, nil
}

// AppendList encodes keys, big-endian: 8 bytes host part, 1 byte width, and 8 bytes for each path.
// A path is a number that consists of the path's top width bits.
func AppendList(dst []byte, host uint64, l keyset.List) []byte {
	dst = binary.BigEndian.AppendUint64(dst, host)
	dst = append(dst, byte(l.Width))
	for _, p := range l.Paths {
		dst = binary.BigEndian.AppendUint64(dst, p)
	}
	return dst
}

func DecodeList(p []byte) (host uint64, l keyset.List, err error) {
	if len(p) < 9 || len(p)%8 != 1 || p[8] == 0 || p[8] > keyset.WholeKey {
		return 0, l, ErrRecord
	}
	host, l.Width, p = binary.BigEndian.Uint64(p), uint(p[8]), p[9:]
	for ; len(p) > 0; p = p[8:] {
		path := binary.BigEndian.Uint64(p)
		if path>>l.Width != 0 { // at width 64 the shift leaves 0
			return 0, l, ErrRecord
		}
		l.Paths = append(l.Paths, path)
	}
	return host, l, nil
}

// AppendSent appends the encoding of the end of foreign links: 1 byte, which is 1 for returned
// links, and for each number the varint difference to the number before.
func AppendSent(dst []byte, numbers []uint64, returned bool) []byte {
	flag := byte(0)
	if returned {
		flag = 1
	}
	dst = append(dst, flag)
	last := uint64(0)
	for _, n := range numbers {
		dst = binary.AppendVarint(dst, int64(n-last))
		last = n
	}
	return dst
}

// DecodeSent reads what AppendSent wrote. Numbers above last are damage.
func DecodeSent(dst []uint64, p []byte, last uint64) (numbers []uint64, returned bool, err error) {
	if len(p) == 0 || p[0] > 1 {
		return dst, false, ErrRecord
	}
	returned, p = p[0] == 1, p[1:]
	n := uint64(0)
	for len(p) > 0 {
		d, w := binary.Varint(p)
		if w <= 0 {
			return dst, false, ErrRecord
		}
		if n, p = n+uint64(d), p[w:]; n == 0 || n > last {
			return dst, false, ErrRecord
		}
		dst = append(dst, n)
	}
	return dst, returned, nil
}

// AppendVisited appends the encoding of a Planner's state of a URL: the Link without its Via,
// then the Planner's bytes.
func AppendVisited(dst []byte, l link.Link, state []byte) []byte {
	l.Via = ""
	return append(l.AppendTo(dst), state...)
}

// DecodeVisited reads what AppendVisited wrote. The state lies in src.
func DecodeVisited(src []byte) (l link.Link, state []byte, err error) {
	l, state, err = DecodeTold(src)
	if err == nil && len(state) == 0 {
		err = ErrRecord
	}
	return l, state, err
}

// DecodeTold is DecodeVisited for a Told, whose state may be empty.
func DecodeTold(src []byte) (l link.Link, state []byte, err error) {
	l, n, err := link.Decode(src)
	if err == nil && l.URL.IsZero() {
		err = ErrRecord
	}
	if err != nil {
		return l, nil, err
	}
	return l, src[n:], nil
}

// AppendHeld appends the encoding of a mark: uvarint number of files, and for each file the
// uvarints number, end, and number of links.
func AppendHeld(dst []byte, files []keyset.HeldFile) []byte {
	return held(fields.Write(dst), &files).Written()
}

func held(c *fields.Codec, files *[]keyset.HeldFile) *fields.Codec {
	fields.List(c, files, math.MaxInt, 3, func(f *keyset.HeldFile) {
		fields.Uint(c, &f.Num)
		fields.Uint(c, &f.End)
		fields.Uint(c, &f.Items)
		c.Check(f.End >= 0 && f.Items >= 0)
	})
	return c
}

// DecodeHeld reads what AppendHeld wrote. An empty record is not a mark; it says that a mark
// must follow the finishes after it.
func DecodeHeld(p []byte) (files []keyset.HeldFile, mark bool, err error) {
	if len(p) == 0 {
		return nil, false, nil
	}
	if !held(fields.Read(p), &files).Whole() {
		err = ErrRecord
	}
	return files, true, err
}

// AppendPending appends the encoding of a pending link.
func AppendPending(dst []byte, number uint64, link []byte) []byte {
	return append(binary.AppendUvarint(dst, number), link...)
}

// SplitPending returns the number and the encoded link of a pending record.
func SplitPending(p []byte) (number uint64, link []byte, err error) {
	number, n := binary.Uvarint(p)
	if n <= 0 || number == 0 {
		return 0, nil, ErrRecord
	}
	return number, p[n:], nil
}

// AppendApplication appends the encoding of how far an application is: uvarint URLs fetched, uvarint URLs whose page
// came from the archive, the name.
func AppendApplication(dst []byte, name string, fetched, shared int64) []byte {
	fetched, shared = max(fetched, 0), max(shared, 0)
	return append(application(fields.Write(dst), &fetched, &shared).Written(), name...)
}

func application(c *fields.Codec, fetched, shared *int64) *fields.Codec {
	for _, n := range [...]*int64{fetched, shared} {
		fields.Uint(c, n)
		c.Check(*n >= 0 && *n <= 1<<62)
	}
	return c
}

// DecodeApplication reads what AppendApplication wrote.
func DecodeApplication(p []byte) (name string, fetched, shared int64, err error) {
	c := application(fields.Read(p), &fetched, &shared)
	if c.Left() == 0 {
		return "", 0, 0, ErrRecord
	}
	return string(c.Rest()), fetched, shared, nil
}
