package operate

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"connectrpc.com/connect"

	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// An Archive is what this agent has archived. Its methods change nothing.
type Archive interface {
	// Captures returns what is archived of q.Url, at most q.Limit, after the line q.After. The captures have no agent.
	Captures(ctx context.Context, q *pb.CapturesRequest) (*pb.CapturesResponse, error)
	// Record returns the record of a capture of this agent, whatever q.Agent is.
	Record(ctx context.Context, q *pb.RecordRequest) (*pb.RecordResponse, error)
	// ArchiveKey returns the present key for paths below /archive/.
	ArchiveKey() string
}

// mostBody bounds the bytes of a body in one response, so that it fits into a message between agents.
const mostBody = 512 << 10

// CapturePrefixes returns what the index lines of the wanted captures begin with, in the order of an index. The error
// is for people.
func CapturePrefixes(q *pb.CapturesRequest) ([]string, error) {
	text := strings.TrimSpace(q.Url)
	if q.Match == pb.CaptureMatch_CAPTURE_MATCH_DOMAIN {
		text = strings.TrimPrefix(text, "*.")
	}
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := weburl.Parse(text)
	if err != nil {
		return nil, err
	}
	key := u.SURT()
	host, path, _ := strings.Cut(key, ")")
	switch q.Match {
	case pb.CaptureMatch_CAPTURE_MATCH_HOST:
		return []string{host + ")", host + ":"}, nil // with any port, unless the key has one
	case pb.CaptureMatch_CAPTURE_MATCH_DOMAIN:
		return []string{host + ")", host + ",", host + ":"}, nil
	case pb.CaptureMatch_CAPTURE_MATCH_PREFIX:
		if path == "/" {
			return []string{host + ")"}, nil
		}
		if strings.HasSuffix(text, "/") && !strings.HasSuffix(key, "/") {
			key += "/" // a sort key has no slash at its end
		}
		return []string{key}, nil
	}
	return []string{key + " "}, nil
}

func (o *Operator) Captures(ctx context.Context, q *pb.CapturesRequest) (*pb.CapturesResponse, error) {
	limit, err := rows(q.Limit)
	if err != nil {
		return nil, err
	}
	if pb.CaptureMatch_name[int32(q.Match)] == "" {
		return nil, problem(connect.CodeInvalidArgument, "match %d: there is no such match", q.Match)
	}
	if _, err := CapturePrefixes(q); err != nil {
		return nil, problem(connect.CodeInvalidArgument, "url %.200q: %v", q.Url, err)
	}
	// One more than asked for tells whether there is a next page.
	want := &pb.CapturesRequest{Url: q.Url, Match: q.Match, Limit: limit + 1, After: q.After}
	got, silent := asked[pb.CapturesResponse](ctx, o.agents, o.agents.names(), "Captures", want)
	if len(got) == 0 {
		return nil, unanswered(silent)
	}
	r := &pb.CapturesResponse{Silent: silent, Key: o.agent.ArchiveKey()}
	cut := []byte(nil) // after this line, an agent whose answer was cut may have more
	for name, a := range got {
		for _, c := range a.Captures {
			if bytes.Compare(c.Line, q.After) > 0 { // an answer that does not go on would make pages without end
				c.Agent = name
				status, _ := strconv.ParseInt(c.StatusText, 10, 32) // the index has none, or not a number: 0
				c.Status, c.StatusText = int32(status), ""
				r.Captures = append(r.Captures, c)
			}
		}
		// An honest answer is cut after its last capture. Others would make pages without end, too.
		if n := len(a.Captures); n > 0 && bytes.Equal(a.Next, a.Captures[n-1].Line) &&
			bytes.Compare(a.Next, q.After) > 0 && (cut == nil || bytes.Compare(a.Next, cut) < 0) {
			cut = a.Next
		}
	}
	slices.SortFunc(r.Captures, func(a, b *pb.Capture) int {
		return cmp.Or(bytes.Compare(a.Line, b.Line), strings.Compare(a.Agent, b.Agent))
	})
	n := len(r.Captures)
	if cut != nil {
		n, _ = slices.BinarySearchFunc(r.Captures, cut, func(c *pb.Capture, cut []byte) int {
			return cmp.Or(bytes.Compare(c.Line, cut), -1) // up to it
		})
	}
	switch n = min(n, int(limit)); {
	case n < len(r.Captures):
		r.Captures, r.Next = r.Captures[:n], r.Captures[n-1].Line
	case cut != nil:
		r.Next = cut
	}
	return r, nil
}

func (o *Operator) Record(ctx context.Context, q *pb.RecordRequest) (*pb.RecordResponse, error) {
	if q.From < 0 || q.Offset < 0 || q.Most < 0 || q.Most > mostBody {
		return nil, problem(connect.CodeInvalidArgument, "from %d, offset %d, most %d: give no negative numbers, and "+
			"at most %d bytes", q.From, q.Offset, q.Most, mostBody)
	}
	if !slices.Contains(o.agents.names(), q.Agent) {
		return nil, problem(connect.CodeNotFound, "agent %.80q is not present, and only it can read its archive",
			q.Agent)
	}
	r := new(pb.RecordResponse)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := o.agents.ask(ctx, q.Agent, "Record", q, r); err != nil {
		return nil, problem(connect.CodeUnavailable, "%v", err)
	}
	return r, nil
}
