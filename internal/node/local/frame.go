package local

import (
	"context"
	"io"
	"strconv"
	"time"

	"github.com/orbweaver/orbweaver/internal/node/operate"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/output/captures"
	"github.com/orbweaver/orbweaver/internal/output/replay"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/message"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Frame serves the archived pages of the whole cluster, for which all answers, in a frame of the console.
func (a *Archive) Frame(all *operate.Operator) *replay.Plain {
	return replay.NewPlain(replay.PlainConfig{Path: "/archive/", Valid: func(key string) bool {
		return a.keys.valid(key, a.clock.Now())
	}, Open: framed{all}.open})
}

// A framed opens captures for the frame.
type framed struct{ all *operate.Operator }

// open opens the capture of u that is nearest to a time, at whatever agent.
func (f framed) open(ctx context.Context, u weburl.URL, at time.Time) (*captures.Message, bool, error) {
	const most = 1000 // captures of a URL; of more, the oldest are seen
	r, err := f.all.Captures(ctx, &pb.CapturesRequest{Url: u.String(), Limit: most})
	if err != nil {
		return nil, false, err
	}
	all := make([]captures.Capture, len(r.Captures))
	owner := map[string]string{}
	for i, c := range r.Captures {
		all[i] = captures.Capture{Line: warc.Line{URL: c.Url, Status: strconv.Itoa(int(c.Status)), MIME: c.Mime,
			File: c.File, Offset: c.Offset, Time: c.Time.AsTime().Format(captures.TimeFormat)}}
		owner[c.File+" "+strconv.FormatInt(c.Offset, 10)] = c.Agent
	}
	best, ok := captures.Nearest(captures.Exact(all, u), at)
	if !ok {
		return nil, false, nil
	}
	q := &pb.RecordRequest{File: best.File, Offset: best.Offset, Most: 512 << 10,
		Agent: owner[best.File+" "+strconv.FormatInt(best.Offset, 10)]}
	first, err := f.all.Record(ctx, q)
	if err != nil {
		return nil, false, err
	}
	m := &captures.Message{Status: int(first.Status), Size: first.Size, Truncated: first.Truncated,
		File: first.BodyFile, Body: &remoteBody{all: f.all, ctx: ctx, q: q, part: first}}
	for _, h := range first.Http {
		m.Header = append(m.Header, message.Field{Name: h.Name, Value: h.Value})
	}
	return m, true, nil
}

// A remoteBody reads the body of a record, part by part.
type remoteBody struct {
	all  *operate.Operator
	ctx  context.Context
	q    *pb.RecordRequest
	part *pb.RecordResponse
}

func (b *remoteBody) Read(p []byte) (int, error) {
	for len(b.part.Body) == 0 {
		if !b.part.More || b.q.From >= maxBody {
			return 0, io.EOF
		}
		b.q.From += int64(b.q.Most)
		var err error
		if b.part, err = b.all.Record(b.ctx, b.q); err != nil {
			return 0, err
		}
	}
	n := copy(p, b.part.Body)
	b.part.Body = b.part.Body[n:]
	return n, nil
}
