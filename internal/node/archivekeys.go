package node

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/orbweaver/orbweaver/internal/node/operate"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/output/captures"
	"github.com/orbweaver/orbweaver/internal/output/replay"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/message"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// archiveKeyTime is how long a key of the archive's pages is the present one. It is valid for as long again.
const archiveKeyTime = time.Hour

// An archiveKeys makes the keys for the paths of archived pages. The frame of an archived page has no cookie, so that
// its paths need a secret of their own. It opens the archive alone.
type archiveKeys struct{ secret [32]byte }

func newArchiveKeys() (k *archiveKeys) {
	k = new(archiveKeys)
	rand.Read(k.secret[:])
	return k
}

// at returns the key of a time.
func (k *archiveKeys) at(t time.Time) string {
	h := hmac.New(sha256.New, k.secret[:])
	fmt.Fprint(h, t.Unix()/int64(archiveKeyTime.Seconds()))
	return strings.ToLower(base32.StdEncoding.EncodeToString(h.Sum(nil)[:20]))
}

// valid reports whether a key is the present one or the one before.
func (k *archiveKeys) valid(key string, now time.Time) bool {
	return hmac.Equal([]byte(key), []byte(k.at(now))) || hmac.Equal([]byte(key), []byte(k.at(now.Add(-archiveKeyTime))))
}

// ArchiveKey implements operate.Archive.
func (o local) ArchiveKey() string { return o.a.archiveKeys.at(o.a.now()) }

// place is this agent's archive.
func (a *Agent) place() warc.Place { return warc.Place{Dir: a.dir(), Live: a.parts.Archive} }

// capturesBytes bounds the index lines of an answer, because it must fit into a message. Each is in it twice.
const capturesBytes = 256 << 10

// Captures implements operate.Archive.
func (o local) Captures(ctx context.Context, q *pb.CapturesRequest) (*pb.CapturesResponse, error) {
	prefixes, err := operate.CapturePrefixes(q)
	if err != nil {
		return nil, err
	}
	r := new(pb.CapturesResponse)
	size := 0
	for _, prefix := range prefixes {
		lines, err := warc.FindLines(ctx, o.a.fs, o.a.place(), prefix, string(q.After), int(q.Limit)-len(r.Captures))
		if err != nil {
			return nil, err
		}
		for _, line := range lines {
			l, err := warc.ParseLine([]byte(line))
			if err != nil {
				return nil, err
			}
			if size += len(line); size > capturesBytes && len(r.Captures) > 0 {
				r.Next = r.Captures[len(r.Captures)-1].Line
				return r, nil
			}
			c := &pb.Capture{Url: valid(l.URL), Status: valid(l.Status), Mime: valid(l.MIME), Length: l.Length,
				File: valid(l.File), Offset: l.Offset, Line: []byte(line)}
			c.Revisit = captures.Capture{Line: l}.Revisit()
			if t, err := time.Parse(captures.TimeFormat, l.Time); err == nil {
				c.Time = timestamppb.New(t)
			}
			r.Captures = append(r.Captures, c)
		}
		if len(r.Captures) >= int(q.Limit) {
			break
		}
	}
	return r, nil
}

// valid returns a string that protobuf can carry.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// maxBody bounds how much of an archived body the console reads.
const maxBody = 8 << 20

// Record implements operate.Archive.
func (o local) Record(ctx context.Context, q *pb.RecordRequest) (*pb.RecordResponse, error) {
	if err := o.a.parts.Archive.Flush(); err != nil && !errors.Is(err, warc.ErrClosed) {
		return nil, err
	}
	place := o.a.place()
	at := warc.Line{File: q.File, Offset: q.Offset}
	rec, f, err := warc.OpenRecord(o.a.fs, place.Dir, at)
	if err != nil {
		return nil, err
	}
	r := new(pb.RecordResponse)
	for _, h := range rec.Header {
		r.Warc = append(r.Warc, &pb.HeaderField{Name: valid(h.Name), Value: valid(h.Value)})
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	archive := captures.New(o.a.fs, []warc.Place{place}, nil)
	m, err := archive.Open(ctx, archive.At(at))
	if errors.Is(err, warc.ErrNoOriginal) {
		r.Truncated = err.Error() // its header is there all the same
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	defer m.Close()
	r.Status, r.Size, r.Truncated = int32(m.Status), m.Size, valid(m.Truncated)
	r.BodyFile = valid(m.File[strings.LastIndexByte(m.File, '/')+1:])
	for _, h := range m.Header {
		r.Http = append(r.Http, &pb.HeaderField{Name: valid(h.Name), Value: valid(h.Value)})
	}
	most := int64(q.Most)
	if most <= 0 {
		return r, nil
	}
	from := min(max(q.From, 0), maxBody)
	if _, err := io.CopyN(io.Discard, m.Body, from); err != nil && err != io.EOF {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(m.Body, min(most, maxBody-from)+1))
	if err != nil && len(b) == 0 {
		return nil, err
	}
	if r.More = int64(len(b)) > most; r.More {
		b = b[:most]
	}
	r.Body = b
	return r, nil
}

// archivedPages serves the archived pages of the whole cluster in a frame of the console.
func (a *Agent) archivedPages() *replay.Plain {
	return replay.NewPlain(replay.PlainConfig{Path: "/archive/", Valid: func(key string) bool {
		return a.archiveKeys.valid(key, a.now())
	}, Open: a.openCapture})
}

// openCapture opens the capture of u that is nearest to a time, at whatever agent.
func (a *Agent) openCapture(ctx context.Context, u weburl.URL, at time.Time) (*captures.Message, bool, error) {
	const most = 1000 // captures of a URL; of more, the oldest are seen
	r, err := a.operator.Captures(ctx, &pb.CapturesRequest{Url: u.String(), Limit: most})
	if err != nil {
		return nil, false, err
	}
	all := make([]captures.Capture, len(r.Captures))
	owner := map[string]string{}
	for i, c := range r.Captures {
		all[i] = captures.Capture{Line: warc.Line{URL: c.Url, Status: c.Status, MIME: c.Mime, File: c.File,
			Offset: c.Offset, Time: c.Time.AsTime().Format(captures.TimeFormat)}}
		owner[c.File+" "+strconv.FormatInt(c.Offset, 10)] = c.Agent
	}
	best, ok := captures.Nearest(captures.Exact(all, u), at)
	if !ok {
		return nil, false, nil
	}
	q := &pb.RecordRequest{File: best.File, Offset: best.Offset, Most: 512 << 10,
		Agent: owner[best.File+" "+strconv.FormatInt(best.Offset, 10)]}
	first, err := a.operator.Record(ctx, q)
	if err != nil {
		return nil, false, err
	}
	m := &captures.Message{Status: int(first.Status), Size: first.Size, Truncated: first.Truncated,
		File: first.BodyFile, Body: &remoteBody{a: a, ctx: ctx, q: q, part: first}}
	for _, h := range first.Http {
		m.Header = append(m.Header, message.Field{Name: h.Name, Value: h.Value})
	}
	return m, true, nil
}

// A remoteBody reads the body of a record, part by part.
type remoteBody struct {
	a    *Agent
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
		if b.part, err = b.a.operator.Record(b.ctx, b.q); err != nil {
			return 0, err
		}
	}
	n := copy(p, b.part.Body)
	b.part.Body = b.part.Body[n:]
	return n, nil
}
