package membership

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/gone"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/operation"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// With several applications, an agent that now crawls a host may want a page that an agent before it has fetched. Then
// it asks the other agents for the record. The question is an Operation, in pieces of the record.

const (
	// captureMethod is the method of the question. The request is a uvarint offset in the record, and the URL. The
	// response is the uvarint size of the record, 0 if there is none, and the bytes from the offset on.
	captureMethod = "Capture"
	// capturePiece bounds the bytes of a piece.
	capturePiece = 512 << 10
	// captureMax bounds a record. A larger one is fetched again.
	captureMax = 64 << 20
	// captureWait bounds the wait for one agent.
	captureWait = 20 * time.Second
)

// captures ask other agents for records, and answer them. It is a boundary.Archives.
type captures struct {
	members  *members.Members
	division *Division
	archive  Archive
}

// captured answers to another agent what this agent's archive has of a URL.
func (c captures) captured(request []byte) (response []byte, err error) {
	from, n := binary.Uvarint(request)
	if n <= 0 {
		return nil, errors.New("damaged question for a record")
	}
	u, err := weburl.Parse(string(request[n:]))
	if err != nil {
		return nil, err
	}
	r, size, err := c.archive.OpenNewest(u.String())
	if err != nil || r == nil {
		return []byte{0}, nil // for the other agent, a record that cannot be read is not there
	}
	defer r.Close()
	if _, err := io.CopyN(io.Discard, r, int64(min(from, 1<<62))); err != nil {
		return []byte{0}, nil
	}
	piece, err := io.ReadAll(io.LimitReader(r, capturePiece))
	if err != nil {
		return []byte{0}, nil
	}
	return append(binary.AppendUvarint(nil, uint64(size)), piece...), nil
}

// Capture implements boundary.Archives. It asks the other agents for the newest record of u, one after the other: first
// those that leave, because they have handed over their hosts and still have their archives. r is nil if none has it.
func (c captures) Capture(ctx context.Context, u weburl.URL) (r io.ReadCloser, agent string, err error) {
	if c.members.Gossip() == nil {
		return nil, "", nil
	}
	agents, _ := c.division.Before(u.Host())
	for _, agent := range agents {
		b, e := c.captureOf(ctx, agent, u)
		if b != nil {
			return io.NopCloser(bytes.NewReader(b)), agent, nil
		}
		err = errors.Join(err, e)
	}
	return nil, "", err
}

// captureOf asks one agent. The result is nil if the agent does not have the record.
func (c captures) captureOf(ctx context.Context, agent string, u weburl.URL) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, captureWait)
	defer cancel()
	p, err := c.members.Peer(agent)
	if err != nil {
		return nil, err
	}
	var record []byte
	for {
		request := append(binary.AppendUvarint(nil, uint64(len(record))), u.String()...)
		piece, err := operation.Ask(ctx, p, captureMethod, request)
		if _, failed := errors.AsType[operation.Failure](err); failed { // it does not know the question
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		size, n := binary.Uvarint(piece)
		switch {
		case n <= 0:
			return nil, fmt.Errorf("agent %s sends a damaged answer", agent)
		case size == 0 || size > captureMax || len(piece) == n && uint64(len(record)) < size:
			return nil, nil
		}
		if record = append(record, piece[n:]...); uint64(len(record)) >= size {
			return record[:size], nil
		}
	}
}

// An operated carries out what other agents pass on.
type operated struct {
	captures
	joining *joining
	gone    *gone.Roll
	agent   Agent
}

// answer answers an Operation of another agent.
func (o operated) answer(ctx context.Context, from rpc.Caller, method string, request []byte) ([]byte, error) {
	switch {
	case method == captureMethod:
		return o.captured(request)
	case method == gone.CountsMethod:
		return nil, o.gone.Told(from, request)
	case method == members.LeftMethod && o.joining.endings != nil && o.members.Gossip() != nil:
		return nil, o.joining.endings.Left(o.members.Gossip(), from)
	}
	return o.agent.Answer(ctx, method, request)
}
