package link

import (
	"encoding/binary"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A chain of redirects may come back to a URL, and the request for it may differ by then: a redirect has set a cookie,
// or has put a session id into the URL. A link that a redirect leads to therefore knows the requests of its chain.

const (
	// tagSteps is the tag of the field of an Ext with the requests of the chain: for each 4 octets of the key's path
	// and 4 octets of a hash of the request, big-endian.
	tagSteps = 9
	// maxSteps is how many requests of a chain a link knows, the last ones.
	maxSteps = 40
	stepLen  = 8
)

// Steps returns the requests of the chain of redirects that leads to the link, for SetSteps; "" if it knows none.
func (l Link) Steps() string {
	if l.Ext == "" {
		return ""
	}
	value, _ := l.field(tagSteps)
	return value[:len(value)/stepLen*stepLen]
}

// SetSteps sets the requests of the chain of redirects that leads to the link.
func (l *Link) SetSteps(steps string) {
	if steps == "" {
		l.removeField(tagSteps)
		return
	}
	l.setField(tagSteps, steps)
}

// AddStep adds a request for u to steps. request is a hash of all in which the requests for u differ.
func AddStep(steps string, u weburl.URL, request uint32) string {
	var b [stepLen]byte
	binary.BigEndian.PutUint32(b[:], uint32(KeyOf(u).Path))
	binary.BigEndian.PutUint32(b[4:], request)
	return steps[max(len(steps)-(maxSteps-1)*stepLen, 0):] + string(b[:])
}

// Passed returns how often a chain with these steps has requested u, and whether one of these requests was the same.
func Passed(steps string, u weburl.URL, request uint32) (times int, same bool) {
	path := uint32(KeyOf(u).Path)
	for ; len(steps) >= stepLen; steps = steps[stepLen:] {
		if binary.BigEndian.Uint32([]byte(steps)) == path {
			times++
			same = same || binary.BigEndian.Uint32([]byte(steps[4:])) == request
		}
	}
	return times, same
}
