package gossip

import (
	"bytes"
	"io"
)

// complaints is where memberlist's log goes. The library says in no other way that
// a packet or a stream could not be read: it logs a line and goes on.
type complaints struct {
	refused func() // nil: nobody counts
	next    io.Writer
}

// unread are what such lines have in common (net.go of version 0.7).
var unread = [][]byte{
	[]byte("label"), // of another crawl, or none
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

// broken are streams that ended or stood still: their reader's fate, not a fault.
var broken = [][]byte{[]byte("EOF"), []byte("timeout"), []byte("reset by peer"), []byte("closed"),
	[]byte("broken pipe")}

// Write takes one line.
func (c complaints) Write(line []byte) (int, error) {
	if c.refused != nil && contains(line, unread) && !contains(line, broken) {
		c.refused()
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
