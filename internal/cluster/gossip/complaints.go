package gossip

import (
	"bytes"
	"io"
	"time"
)

// A Watcher is told what a Member receives. Its methods must not block.
type Watcher interface {
	// Pinged is called for each answer to a ping of the failure detector, with the View.Digest of the answering agent
	// and the time of the ping.
	Pinged(digest uint64, sent time.Time)
	// Refused is called for each packet and stream of gossip that cannot be read or belongs to another crawl.
	Refused()
}

// complaints receives memberlist's log. Only the log shows that memberlist could not read a packet
// or a stream.
type complaints struct {
	watcher Watcher // nil: nobody is told
	next    io.Writer
}

// unread has substrings of the log lines about unreadable data (net.go of version 0.7).
var unread = [][]byte{
	[]byte("label"), // of another crawl, or without a label
	[]byte("ecrypt packet failed"),
	[]byte("invalid checksum"),
	[]byte("missing message type"),
	[]byte("not supported"),
	[]byte("ailed to decode"),
	[]byte("ailed to decompress"),
	[]byte("invalid msgType"),
	[]byte("ailed to receive"),
	[]byte("ailed to read remote state"),
	[]byte("truncated messages"),
}

// broken has the errors of streams that ended or stalled. They are no fault of the sender.
var broken = [][]byte{[]byte("EOF"), []byte("timeout"), []byte("reset by peer"), []byte("closed"),
	[]byte("broken pipe")}

// Write processes one line of the log.
func (c complaints) Write(line []byte) (int, error) {
	if c.watcher != nil && contains(line, unread) && !contains(line, broken) {
		c.watcher.Refused()
	}
	return c.next.Write(line)
}

func contains(line []byte, any [][]byte) bool {
	for _, s := range any {
		if bytes.Contains(line, s) {
			return true
		}
	}
	return false
}
