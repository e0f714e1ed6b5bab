package admin

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/orbweaver/orbweaver/internal/inbound"
)

const (
	// callBytes is what a call with a small message takes, and rowsBytes what a call takes whose response has many
	// rows, or that compiles a pattern. A byte of the message takes messageBytes more, encoded and decoded.
	callBytes, rowsBytes, messageBytes = 256 << 10, 1 << 20, 4
	// roomWait bounds the wait of a call for others to end.
	roomWait = 10 * time.Second
	// leastAsked and leastRoom let several calls be served at once, however small the budget of the process is.
	leastAsked, leastRoom = 4 << 20, 2 << 20
)

// rooms bound the memory of calls. So that some kinds of calls do not hold up others, each has a room:
//
//	asked    calls that change nothing, and archived pages
//	told     calls that change something: no reader holds up an operator's commands
//	lasting  streams, and calls that wait for what will happen; they have to find room at once
//	bodies   besides: bodies of archived pages; see inbound.Take
type rooms struct {
	asked, told, lasting, bodies *inbound.Room
	refuse                       *connect.ErrorWriter
}

func newRooms(memory int64, refuse *connect.ErrorWriter) rooms {
	part := cmp.Or(memory, 16<<20) / 4
	least := max(part, leastRoom)
	return rooms{inbound.NewRoom(max(part, leastAsked)), inbound.NewRoom(least), inbound.NewRoom(least),
		inbound.NewRoom(least), refuse}
}

// ofRows are the calls that take rowsBytes.
var ofRows = map[string]bool{"Queue": true, "ExcludePreview": true, "Log": true, "Hosts": true, "Captures": true,
	"Record": true, "Blacklists": true}

// enter finds room for a call.
func (m rooms) enter(r *http.Request) (leave func(), ok bool) {
	path := r.URL.Path
	bytes, most := int64(callBytes), int64(maxQuestion)
	if changing[path] {
		most = maxRequest
	}
	if ofRows[path[strings.LastIndexByte(path, '/')+1:]] || strings.HasPrefix(path, archivePath) {
		bytes = rowsBytes
	}
	size := r.ContentLength
	if size < 0 || r.Header.Get("Content-Encoding") != "" || r.Header.Get("Grpc-Encoding") != "" ||
		r.Header.Get("Connect-Content-Encoding") != "" {
		size = most // it is not known yet
	}
	bytes += messageBytes * min(size, maxRequest)
	ctx, cancel := context.WithTimeout(r.Context(), roomWait)
	defer cancel()
	var err error
	switch {
	case streaming[path] || path == pagesPath:
		return m.lasting.TryEnter(bytes)
	case changing[path]:
		leave, err = m.told.Enter(ctx, bytes)
	default:
		leave, err = m.asked.Enter(ctx, bytes)
	}
	return leave, err == nil
}

// bound serves calls when there is room for them.
func (m rooms) bound(next http.Handler) http.Handler {
	return inbound.Admit(m.enter, m.refuse, "the agent answers as many calls as its memory permits; try again later",
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, leave := m.bodies.With(r.Context())
			defer leave()
			next.ServeHTTP(w, r.WithContext(ctx))
		}))
}
