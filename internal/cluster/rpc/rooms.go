package rpc

import (
	"cmp"
	"net/http"

	"github.com/orbweaver/orbweaver/internal/inbound"
)

const (
	// defaultMemory is the memory of requests if ServerConfig.MemoryBytes is zero.
	defaultMemory = 64 << 20
	// A call takes callBytes, and each byte of its message takes messageBytes: encoded, decompressed and decoded.
	callBytes, messageBytes = 16 << 10, 4
	// expands is how many times its size a compressed message is taken to have. Links and records have 3 to 8 times.
	// A message that has more is not counted whole. The number of calls bounds the memory then.
	expands = 8
	// leastRoom is a call with the largest message.
	leastRoom = callBytes + messageBytes*maxMessage
	// smallBytes is the most that a call takes that needs no room, so that large calls refuse none of them.
	smallBytes = 64 << 10
)

// rooms bound the memory of calls with large messages. A call for which there is no room is refused at once, as one
// above the number of calls is. It does not wait: while its body is not read, the body would take the window of its
// connection, and delay the leases on it. And no agents wait for each other: the caller repeats the call, and a handler
// that calls another agent may wait for Ship alone, which calls none. But the refusal pauses a lane of the caller, and
// those of bulk and ships share one (see lane).
//
//	bulk       Push, Hand, Claim, Recall
//	ships      Ship
//	operators  Orders, Operate
//	asked      Contents, Budget
//
// All other calls have small messages, except Pages, which has one message in memory at a time for up to ten minutes,
// and Discover and Follow at a coordinator. Their numbers are bounded.
type rooms struct{ bulk, ships, operators, asked *inbound.Room }

func newRooms(memory int64) rooms {
	part := cmp.Or(memory, defaultMemory) / 7
	large, small := max(2*part, 2*leastRoom), max(part, leastRoom)
	return rooms{inbound.NewRoom(large), inbound.NewRoom(large), inbound.NewRoom(small), inbound.NewRoom(large)}
}

// of returns the room of a call; nil: it needs none.
func (m *rooms) of(call Call) *inbound.Room {
	switch call {
	case CallPush, CallHand, CallClaim, CallRecall:
		return m.bulk
	case CallShip:
		return m.ships
	case CallOrders, CallOperate:
		return m.operators
	case CallContents, CallBudget:
		return m.asked
	}
	return nil
}

// enter finds room for a call.
func (m *rooms) enter(r *http.Request, call Call) (leave func(), ok bool) {
	room := m.of(call)
	if room == nil {
		return func() {}, true
	}
	most := int64(cmp.Or(sizes[call], maxMessage))
	size := r.ContentLength
	switch {
	case size < 0: // not known
		size = most
	case r.Header.Get("Content-Encoding") != "":
		size *= expands
	}
	bytes := callBytes + messageBytes*min(size, most)
	if bytes <= smallBytes {
		return func() {}, true
	}
	return room.TryEnter(bytes)
}
