package object

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
)

// Config tunes a Store. The zero Config is safe.
type Config struct {
	// PartSize is the size of the parts of large objects in bytes, at least 5 MiB for S3. Zero means 16 MiB. Objects
	// with more than 10,000 of them get larger parts.
	PartSize int64
	// Parallel is how many parts of one object are sent at a time. Zero means 4.
	Parallel int
	// Rate bounds the bytes a second of all writers together. Zero means no bound.
	Rate int64
	// Tries is how often a request is made that fails for the moment. Zero means until the context ends.
	Tries int
	// Clock tells when bytes may be sent. nil means the system's.
	Clock clock.Clock
	// Waits is told of each wait. nil: nobody.
	Waits Waiter
}

// A Waiter hears that a Store makes a request again after some time, and why. Several goroutines may call it at once.
type Waiter interface {
	Waits(why error, d time.Duration)
}

const (
	maxParts = 10000
	// maxRead bounds what Read returns.
	maxRead = 64 << 20
	// MaxList bounds a page of a list. S3 sends 1000 at most; s3 asks for one more, to know whether the list ends.
	MaxList = 999
)

// A Store is an object store. Safe for concurrent use.
type Store struct {
	to       Backend
	base     string // its URL, with a slash at its end
	partSize int64
	parallel int
	tries    int
	pace     *pace // nil: no bound
	clock    clock.Clock
	waits    Waiter

	turn chan struct{} // has one value, which the goroutine holds that probes the store or reads able
	able *Abilities    // nil: not known yet
}

// New returns a Store. base is its URL for messages, without credentials.
func New(to Backend, base string, c Config) *Store {
	s := &Store{to: to, base: strings.TrimSuffix(base, "/") + "/", partSize: c.PartSize, parallel: c.Parallel,
		tries: c.Tries, clock: clock.Or(c.Clock), waits: c.Waits, turn: make(chan struct{}, 1)}
	s.turn <- struct{}{}
	if s.partSize <= 0 {
		s.partSize = 16 << 20
	}
	if s.parallel <= 0 {
		s.parallel = 4
	}
	if c.Rate > 0 {
		s.pace = &pace{rate: c.Rate}
	}
	return s
}

// Location returns the URL of an object, or of a prefix, for messages.
func (s *Store) Location(key string) string { return s.base + key }

// fault adds to an error what was done and where.
func (s *Store) fault(op, key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", op, s.Location(key), err)
}

// check returns an error if a key is not valid.
func (s *Store) check(op, key string) error {
	if !ValidKey(key) {
		return fmt.Errorf("%s %s%q: %w", op, s.base, key, ErrKey)
	}
	return nil
}

// Stat describes an object. The error is ErrNotFound if there is none. A folder reads the whole file for its checksum.
func (s *Store) Stat(ctx context.Context, key string) (Info, error) {
	if err := s.check("look at", key); err != nil {
		return Info{}, err
	}
	i, err := s.stat(ctx, key)
	return i, s.fault("look at", key, err)
}

func (s *Store) stat(ctx context.Context, key string) (i Info, err error) {
	err = s.try(ctx, 0, func(ctx context.Context) (err error) {
		i, err = s.to.Stat(ctx, key)
		return err
	})
	i.Key = key
	return i, err
}

// Get opens at most length bytes of an object, from offset. It has fewer bytes only if the object ends. A read error of
// io.ErrUnexpectedEOF means that the store sent fewer bytes than it announced. The caller closes it.
func (s *Store) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	if err := s.check("read", key); err != nil {
		return nil, err
	}
	// The body outlives the request, so a request of its own duration gets no shorter context.
	wait := firstWait
	for n := 1; ; n++ {
		body, want, err := s.to.Get(ctx, key, offset, length)
		switch {
		case err == nil && (want < 0 || want > length):
			return nil, s.fault("read", key, errors.Join(fmt.Errorf("%w (%d bytes for %d)", ErrAnswer, want, length),
				body.Close()))
		case err == nil:
			return &bounded{body, want}, nil
		case !Temporary(err) || s.tries > 0 && n >= s.tries:
			return nil, s.fault("read", key, err)
		}
		if s.waits != nil {
			s.waits.Waits(err, wait)
		}
		if !clock.Pause(ctx, wait) {
			return nil, s.fault("read", key, errors.Join(err, ctx.Err()))
		}
		wait = min(2*wait, longestWait)
	}
}

// A bounded body has the bytes that were announced, or ends with an error.
type bounded struct {
	io.ReadCloser
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	if b.left -= int64(n); err == io.EOF && b.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Read returns at most length bytes of an object, from offset. It reads again if the store's answer ends early. length
// is at most 64 MiB.
func (s *Store) Read(ctx context.Context, key string, offset, length int64) (b []byte, err error) {
	return s.ReadTagged(ctx, key, "", offset, length)
}

// ReadTagged is Read of the object that has a tag. If the object has another one, the error is ErrChanged. An empty tag
// is any, and so is each tag for a Backend that is not Tagged.
func (s *Store) ReadTagged(ctx context.Context, key, tag string, offset, length int64) (b []byte, err error) {
	if err := s.check("read", key); err != nil {
		return nil, err
	}
	if length > maxRead {
		return nil, s.fault("read", key, fmt.Errorf("%w (%d bytes at once, at most %d)", ErrTooLarge, length, maxRead))
	}
	get := s.to.Get
	if to, ok := s.to.(Tagged); ok && tag != "" {
		get = func(ctx context.Context, key string, offset, length int64) (io.ReadCloser, int64, error) {
			return to.GetTagged(ctx, key, tag, offset, length)
		}
	}
	err = s.try(ctx, length, func(ctx context.Context) error {
		body, n, err := get(ctx, key, offset, length)
		if err != nil {
			return err
		}
		defer body.Close()
		if n < 0 || n > length {
			return fmt.Errorf("%w (%d bytes for %d)", ErrAnswer, n, length)
		}
		if b, err = io.ReadAll(io.LimitReader(body, n)); err == nil && int64(len(b)) < n {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return fmt.Errorf("%w (its answer ended after %d of %d bytes: %w)", ErrAway, len(b), n, err)
		}
		return nil
	})
	if errors.Is(err, ErrPrecondition) {
		err = ErrChanged
	}
	return b, s.fault("read", key, err)
}

// ReadAll returns a whole object. If it is longer than max bytes, the error is ErrTooLarge.
func (s *Store) ReadAll(ctx context.Context, key string, max int64) ([]byte, error) {
	b, err := s.Read(ctx, key, 0, max+1)
	if err == nil && int64(len(b)) > max {
		return nil, s.fault("read", key, fmt.Errorf("%w (over %d bytes)", ErrTooLarge, max))
	}
	return b, err
}

// List returns a page of the objects whose keys begin with prefix and come after the key after. It has at most max
// objects, and at most MaxList.
func (s *Store) List(ctx context.Context, prefix, after string, max int) (p Page, err error) {
	if !validPrefix(prefix) {
		return Page{}, fmt.Errorf("list %s%q: %w", s.base, prefix, ErrKey)
	}
	max = min(max, MaxList)
	var list []Info
	var more bool
	err = s.try(ctx, 0, func(ctx context.Context) (err error) {
		list, more, err = s.to.List(ctx, prefix, after, max)
		return err
	})
	if err != nil {
		return Page{}, s.fault("list", prefix, err)
	}
	if len(list) > max || more && len(list) == 0 {
		return Page{}, s.fault("list", prefix, fmt.Errorf("%w (%d objects in a list of %d)", ErrAnswer, len(list), max))
	}
	last := after
	for _, i := range list {
		if i.Key <= last || !strings.HasPrefix(i.Key, prefix) {
			return Page{}, s.fault("list", prefix, fmt.Errorf("%w (%.100q comes after %.100q in its list)", ErrAnswer,
				i.Key, last))
		}
		if last = i.Key; ValidKey(i.Key) && i.Size >= 0 {
			p.Objects = append(p.Objects, i)
		} else {
			p.Strange++
		}
	}
	if more {
		p.Next = last
	}
	return p, nil
}

// Delete removes an object. It returns nil also if there is none.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := s.check("delete", key); err != nil {
		return err
	}
	return s.fault("delete", key, s.try(ctx, 0, func(ctx context.Context) error { return s.to.Delete(ctx, key) }))
}

// maxOrphans bounds the uploads that Abort looks at.
const maxOrphans = 100000

// Abort aborts uploads in parts whose keys begin with prefix and which began before a time: a process that was killed
// has left them, and they cost money. It returns how many it has aborted.
func (s *Store) Abort(ctx context.Context, prefix string, before time.Time) (n int, err error) {
	if !validPrefix(prefix) {
		return 0, fmt.Errorf("list uploads of %s%q: %w", s.base, prefix, ErrKey)
	}
	var after Upload
	for seen, more := 0, true; more && seen < maxOrphans; {
		var page []Upload
		err := s.try(ctx, 0, func(ctx context.Context) (err error) {
			page, more, err = s.to.Uploads(ctx, prefix, after)
			return err
		})
		if err != nil {
			return n, s.fault("list uploads of", prefix, err)
		}
		if more && len(page) == 0 {
			return n, s.fault("list uploads of", prefix, ErrAnswer)
		}
		for _, u := range page {
			if !strings.HasPrefix(u.Key, prefix) || !u.Begun.Before(before) {
				continue
			}
			err := s.try(ctx, 0, func(ctx context.Context) error { return s.to.Abort(ctx, u.Key, u.ID) })
			if err != nil && !errors.Is(err, ErrNoUpload) {
				return n, s.fault("abort the upload of", strings.ToValidUTF8(fmt.Sprintf("%.200q", u.Key), ""), err)
			}
			n++
		}
		if more {
			last := page[len(page)-1]
			if last.Key < after.Key || last == after {
				return n, s.fault("list uploads of", prefix, ErrAnswer)
			}
			after = last
		}
		seen += len(page)
	}
	return n, nil
}
