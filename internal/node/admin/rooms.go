package admin

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/orbweaver/orbweaver/internal/inbound"
)

const (
	// callBytes is what a call with a small message takes. A byte of the message takes messageBytes more, encoded and
	// decoded.
	callBytes, messageBytes = 256 << 10, 4
	// roomWait bounds the wait of a call for others to end.
	roomWait = 10 * time.Second
	// leastRoom lets several calls be served at once, however small the budget of the process is.
	leastRoom = 2 << 20
)

// rooms bound the memory of calls. Those that last, because they wait for what will happen, have a room of their own:
// they hold up no other calls, and have to find room at once.
type rooms struct {
	short, lasting *inbound.Room
	refuse         *connect.ErrorWriter
}

func newRooms(memory int64, refuse *connect.ErrorWriter) rooms {
	half := max(cmp.Or(memory, 16<<20)/2, leastRoom)
	return rooms{inbound.NewRoom(half), inbound.NewRoom(half), refuse}
}

// enter finds room for a call.
func (m rooms) enter(r *http.Request, bytes int64) (leave func(), ok bool) {
	if streaming[r.URL.Path] || r.URL.Path == pagesPath {
		return m.lasting.TryEnter(bytes)
	}
	ctx, cancel := context.WithTimeout(r.Context(), roomWait)
	defer cancel()
	leave, err := m.short.Enter(ctx, bytes)
	return leave, err == nil
}

// bound serves calls when there is room for them.
func (m rooms) bound(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size := r.ContentLength
		if size < 0 || r.Header.Get("Content-Encoding") != "" || r.Header.Get("Grpc-Encoding") != "" ||
			r.Header.Get("Connect-Content-Encoding") != "" {
			size = maxRequest // it is not known yet
			if !changing[r.URL.Path] {
				size = maxQuestion
			}
		}
		leave, ok := m.enter(r, callBytes+messageBytes*min(size, maxRequest))
		if !ok {
			_ = m.refuse.Write(w, r, connect.NewError(connect.CodeUnavailable, errors.New("the agent answers as many "+
				"calls as its memory permits; try again later")))
			return
		}
		defer leave()
		next.ServeHTTP(w, r)
	})
}
