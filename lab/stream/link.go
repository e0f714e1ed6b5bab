package stream

import (
	"encoding/binary"

	"github.com/orbweaver/orbweaver/internal/web/link"
)

// maxAux bounds the length of an item's Aux.
const maxAux = 256

// numberLen is the length of a URL's number at the end of its text.
const numberLen = 16

const hexDigits = "0123456789abcdef"

var hexPairs = func() (t [256]uint16) {
	for i := range t {
		t[i] = uint16(hexDigits[i>>4]) | uint16(hexDigits[i&15])<<8
	}
	return t
}()

// appendHex appends the last 2n hexadecimal digits of v.
func appendHex(dst []byte, v uint64, n int) []byte {
	for i := n - 1; i >= 0; i-- {
		dst = binary.LittleEndian.AppendUint16(dst, hexPairs[byte(v>>(8*i))])
	}
	return dst
}

func appendURL(dst []byte, paths *[64][]byte, i, rank uint64) []byte {
	dst = append(dst, "https://www.h"...)
	dst = appendHex(dst, rank, 4)
	dst = append(dst, ".example/"...)
	dst = append(dst, paths[(rank+i/3)&63]...)
	return appendHex(dst, i, numberLen/2)
}

// appendLink appends the encoding of a link.Link from the present page to URL i.
func (s *Stream) appendLink(dst []byte, i, rank uint64) []byte {
	dst = append(dst, 0, 0)
	at := len(dst)
	dst = appendURL(dst, &s.paths, i, rank)
	dst[at-1] = byte(len(dst) - at) // less than 128
	return append(dst, s.tail...)
}

// page starts a new page. Its links have the referrer, the discovery path and the seed in common.
func (s *Stream) page() {
	i := s.fresh / 2
	_, rank := s.key(i)
	hops := "LLLLLLLLLLLL"[:4+s.items/pageLinks%8]
	l := link.Link{Via: string(appendURL(nil, &s.paths, i, rank)), Hops: hops, Seed: "www.h00000001.example"}
	s.tail = l.AppendTail(s.tail[:0])
}

// Number returns the number of the URL of an item. ok is false if it is not an item of the Stream.
func (s *Stream) Number(it *Item) (i uint64, ok bool) {
	a := it.Aux
	if len(a) < 2+numberLen || int(a[1]) < numberLen || len(a) < 2+int(a[1]) {
		return 0, false
	}
	end := 2 + int(a[1])
	for _, c := range a[end-numberLen : end] {
		d := uint64(c - '0')
		if c >= 'a' {
			d = uint64(c-'a') + 10
		}
		i = i<<4 | d
	}
	return i, i < s.fresh && s.Key(i) == it.Key
}
