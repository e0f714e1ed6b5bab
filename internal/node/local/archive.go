package local

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/node/operate"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/output/captures"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// archiveKeyTime is how long a key of the archive's pages is the present one. It is valid for as long again.
const archiveKeyTime = time.Hour

// An Archive is what this agent has archived. It implements operate.Archive.
type Archive struct {
	fs    disk.FS
	place warc.Place
	live  *warc.Writer
	clock clock.Clock
	keys  *archiveKeys
}

// NewArchive returns the archive below a crawl directory, to which live writes.
func NewArchive(fs disk.FS, dir string, live *warc.Writer, clock clock.Clock) *Archive {
	return &Archive{warc.Remember(fs), warc.Place{Dir: dir, Live: live}, live, clock, newArchiveKeys()}
}

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

func (a *Archive) ArchiveKey() string { return a.keys.at(a.clock.Now()) }

// capturesBytes bounds the index lines of an answer, because it must fit into a message. Each is in it twice.
const capturesBytes = 256 << 10

func (a *Archive) Captures(ctx context.Context, q *pb.CapturesRequest) (*pb.CapturesResponse, error) {
	prefixes, err := operate.CapturePrefixes(q)
	if err != nil {
		return nil, err
	}
	r := new(pb.CapturesResponse)
	size := 0
	for _, prefix := range prefixes {
		lines, err := warc.FindLines(ctx, a.fs, a.place, prefix, string(q.After), int(q.Limit)-len(r.Captures))
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
			c := &pb.Capture{Url: valid(l.URL), StatusText: valid(l.Status), Mime: valid(l.MIME), Length: l.Length,
				File: valid(l.File), Offset: l.Offset, Line: []byte(line)}
			c.Revisit = captures.Capture{Line: l}.Revisit()
			if t, err := l.Taken(); err == nil {
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

func (a *Archive) Record(ctx context.Context, q *pb.RecordRequest) (*pb.RecordResponse, error) {
	if err := a.live.Flush(); err != nil && !errors.Is(err, warc.ErrClosed) {
		return nil, err
	}
	at := warc.Line{File: q.File, Offset: q.Offset}
	rec, f, err := warc.OpenRecord(a.fs, a.place.Dir, at)
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
	archive := captures.New(a.fs, []warc.Place{a.place}, nil)
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

// readBody reads a part of an archived body, at most room bytes. After an error, d has what was read before.
func (a *Archive) readBody(ctx context.Context, p *pb.BodyPart, room int64, d *pb.BodyData) error {
	rec, f, err := a.openRecord(p)
	if err != nil {
		return err
	}
	defer f.Close()
	truncated := rec.Header.Value("WARC-Truncated")
	_, body, _, err := rec.Message(ctx)
	if err != nil {
		return warc.Unreadable(f.Name(), err)
	}
	if _, err := io.CopyN(io.Discard, body, max(p.Skip, 0)); err != nil {
		return warc.Unreadable(f.Name(), err)
	}
	most := min(max(p.Most, 0), room)
	b, err := io.ReadAll(io.LimitReader(body, most+1))
	d.More, d.Truncated = int64(len(b)) > most, truncated != ""
	d.Data = b[:min(int64(len(b)), most)]
	if err != nil {
		return warc.Unreadable(f.Name(), err)
	}
	return nil
}

// openRecord opens the record with the body that p names: of a revisit record, its original. The caller closes f.
func (a *Archive) openRecord(p *pb.BodyPart) (rec *warc.Record, f disk.File, err error) {
	line, url := warc.Line{File: p.File, Offset: p.Offset}, p.Url
	for original := false; ; original = true {
		if line.File == "" || original {
			found, err := a.live.Find(url)
			if err != nil {
				return nil, nil, err
			}
			if len(found) == 0 {
				return nil, nil, fmt.Errorf("the archive of this agent does not have the content of %s", url)
			}
			line = found[len(found)-1] // of a revisit record: its original
		}
		if rec, f, err = warc.OpenRecord(a.fs, a.place.Dir, line); err != nil || rec.Type() != "revisit" || original {
			return rec, f, err
		}
		url = rec.Reference().URL
		if err := f.Close(); err != nil {
			return nil, nil, err
		}
	}
}

// newest describes the newest record of a URL; empty: there is none.
func (a *Archive) newest(ctx context.Context, u weburl.URL) (text string) {
	r, err := a.Captures(ctx, &pb.CapturesRequest{Url: u.String(), Limit: 100})
	if err != nil {
		return ""
	}
	for _, c := range r.Captures {
		if c.Url == u.String() {
			text = fmt.Sprintf("archived %s: status %s, %s, in %s", c.Time.AsTime().Format("2006-01-02 15:04:05Z"),
				c.StatusText, c.Mime, c.File)
		}
	}
	return text
}
