package urlfrontier

import (
	"context"
	"net/http"
	"path"
	"time"

	"connectrpc.com/connect"

	"github.com/orbweaver/orbweaver/internal/inbound"
)

const (
	// callBytes is the memory of a call. A call whose requests or answers are many takes largeBytes.
	callBytes, largeBytes = 64 << 10, 1 << 20
	// leastRoom is the least memory for streams of URLs, and that for other calls.
	leastRoom = 32 << 20
	// roomWait bounds the wait of a call for others to end.
	roomWait = 10 * time.Second
	// programBytes is the memory of what is neither URLs nor calls.
	programBytes = 32 << 20
)

// RuntimeLimit returns how much memory the Go runtime needs for a Store with some Config.MemoryBytes and its server,
// for debug.SetMemoryLimit.
func RuntimeLimit(memory int64) int64 { return memory + memory/8 + 2*roomBytes(memory) + programBytes }

func roomBytes(memory int64) int64 { return max(memory/8, leastRoom) }

// rooms bound the memory of calls. A PutURLs may last for as long as its client, so it has to find room at once, and
// holds up no other call.
type rooms struct {
	puts, others *inbound.Room
	refuse       *connect.ErrorWriter
}

func newRooms(memory int64) rooms {
	n := roomBytes(memory)
	return rooms{inbound.NewRoom(n), inbound.NewRoom(n), connect.NewErrorWriter()}
}

func (m rooms) enter(r *http.Request) (leave func(), ok bool) {
	bytes := int64(callBytes)
	switch path.Base(r.URL.Path) {
	case "PutURLs":
		return m.puts.TryEnter(largeBytes)
	case "GetURLs", "ListURLs", "ListQueues":
		bytes = largeBytes
	}
	ctx, cancel := context.WithTimeout(r.Context(), roomWait)
	defer cancel()
	leave, err := m.others.Enter(ctx, bytes)
	return leave, err == nil
}

// bound serves calls when there is room for them.
func (m rooms) bound(next http.Handler) http.Handler {
	return inbound.Admit(m.enter, m.refuse, "the server answers as many calls as its memory permits; make fewer at "+
		"once, or give it more memory", next)
}
