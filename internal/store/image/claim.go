package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/store/object"
)

// A Hold is a claim as a process sees it: its own, or that of another process of its run. Safe for concurrent use.
type Hold struct {
	place Place
	run   string
	claim string // "": that of another process
	lease time.Duration

	mu        sync.Mutex // guards all below; never held across a request
	confirmed time.Time  // when the last request began that found the claim
	fenced    bool
}

// tries is how often a pointer is written or read again that the store has lost or damaged.
const tries = 8

// Claim takes over the series for a new run. Any run before is fenced: its images are kept, and it can save no more.
// The process may Restore at once. It must not fetch before Await has returned nil. If the newest image is damaged, the
// error is ErrDamaged.
func Claim(ctx context.Context, p Place, c Config) (*Saver, error) { return claim(ctx, p, c, "") }

// Join goes on with a run whose process has ended, or will not save any more, and whose folder this process has. Await
// then blocks only if that process would still have to wait. The error is ErrFenced if another run has taken over: then
// the folder is out of date. If the newest image is damaged, the next one is sent as a whole.
func Join(ctx context.Context, p Place, c Config, run string) (*Saver, error) {
	if !drawnForm.MatchString(run) {
		return nil, fmt.Errorf("the run %.100q: give what Run returned", run)
	}
	return claim(ctx, p, c, run)
}

// Follow returns a Hold of a run that another process has claimed, such as that of another agent of a cluster.
func Follow(p Place, c Config, run string) *Hold {
	return &Hold{place: p, run: run, lease: c.lease()}
}

func claim(ctx context.Context, p Place, c Config, run string) (*Saver, error) {
	if able, err := p.Store.Abilities(ctx); err != nil {
		return nil, err
	} else if !(able.IfAbsent && able.IfTag) && !c.Unfenced {
		return nil, fmt.Errorf("%s: %w", p.Store.Location(p.Prefix), ErrNoFence)
	}
	want := pointer{Claim: draw(), Run: run, Format: format, Holder: fmt.Sprintf("%.200s", c.Holder)}
	if run == "" {
		want.Run = draw()
	}
	var wait time.Duration
	for n := 1; ; n++ {
		began := p.now()
		old, err := p.before(ctx, c)
		if err != nil {
			return nil, err
		}
		if old.tag == "" || old.Claim != want.Claim { // else an earlier try of this loop was lost, and has succeeded
			if run != "" && (old.tag == "" || old.Run != run) ||
				c.Generation > 0 && old.Generation != c.Generation {
				return nil, fmt.Errorf("%s: %w", p.Store.Location(p.Prefix), ErrFenced)
			}
			want.Generation, want.Began = old.Generation+1, began.UTC().Round(0)
			want.Image, want.Previous = old.Image, old.Previous
			want.Settled = old.tag == "" || old.Released || run != "" && old.Settled
			wait, want.EndsMillis = 0, c.ends().Milliseconds()
			if !want.Settled {
				wait = margin(old.ends())
				want.EndsMillis = max(want.EndsMillis, old.ends().Milliseconds())
			}
			i, err := p.writePointer(ctx, want, old.tag)
			if err != nil {
				if !replaced(err) || n == 2*tries {
					return nil, err
				}
				if !clock.Pause(ctx, time.Duration(n)*100*time.Millisecond) {
					return nil, ctx.Err()
				}
				continue
			}
			old = stamped{want, want.encode(), i.Tag}
		}
		s := newSaver(p, c, old)
		s.hold.confirmed = began
		if wait > 0 {
			s.settled = p.now().Add(wait)
		}
		err = s.load(ctx)
		if run != "" && (errors.Is(err, ErrDamaged) || errors.Is(err, object.ErrNotFound)) {
			err = nil // the folder has the state: the next image is sent as a whole
		}
		if err != nil {
			return nil, err
		}
		return s, nil
	}
}

// before returns the pointer that a claim replaces.
func (p Place) before(ctx context.Context, c Config) (stamped, error) {
	for n := 1; ; n++ {
		old, err := p.readPointer(ctx)
		switch {
		case err == nil:
			return old, nil
		case n == tries && errors.Is(err, ErrDamaged):
			old.pointer, err = p.recovered(ctx, old.text)
			old.EndsMillis = max(c.ends(), time.Minute).Milliseconds()
			return old, err
		case n == tries || !errors.Is(err, ErrDamaged) && !errors.Is(err, object.ErrNotFound):
			return old, err
		}
		if !clock.Pause(ctx, time.Duration(n)*100*time.Millisecond) {
			return old, ctx.Err()
		}
	}
}

// margin adds to a duration that another machine measures: its clock may be slower by a tenth.
func margin(d time.Duration) time.Duration { return d + d/10 + time.Second }

// recovered returns a pointer instead of one that is damaged and that nobody repairs. It names the newest image.
func (p Place) recovered(ctx context.Context, torn []byte) (v pointer, err error) {
	v.Generation = tornGeneration(torn)
	if m := tornRun.FindSubmatch(torn); m != nil {
		v.Run = string(m[1])
	}
	var last []string // keys of lists, in the order of their generations and attempts
	for after := ""; ; {
		page, err := p.Store.List(ctx, p.Prefix+imagesDir, after, object.MaxList)
		if err != nil {
			return v, err
		}
		for _, i := range page.Objects {
			key := strings.TrimPrefix(i.Key, p.Prefix)
			if n, ok := parseName(key); ok {
				v.Generation = max(v.Generation, n.generation)
				last = append(last, key)
			}
		}
		last = last[max(0, len(last)-4):]
		if after = page.Next; after == "" {
			break
		}
	}
	for _, key := range slices.Backward(last) {
		l, ref, err := p.readList(ctx, imageRef{Key: key})
		if err == nil {
			err = p.has(ctx, l)
		}
		if err == nil {
			ref.Number, ref.Taken = l.Number, l.Taken
			v.Image = &ref
			break
		} else if !errors.Is(err, ErrDamaged) && !errors.Is(err, object.ErrNotFound) {
			return v, err
		}
	}
	return v, nil
}

// has returns an error if the store lacks a pack of an image.
func (p Place) has(ctx context.Context, l *list) error {
	for _, q := range l.packs {
		i, err := p.Store.Stat(ctx, p.Prefix+q.key)
		if err == nil && i.Size != q.bytes {
			err = fmt.Errorf("%s: %w", p.Store.Location(p.Prefix+q.key), ErrDamaged)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writePointer replaces the pointer that has a tag. If another process has replaced it, see replaced.
func (p Place) writePointer(ctx context.Context, v pointer, tag string) (object.Info, error) {
	if v.Generation > maxGeneration {
		return object.Info{}, fmt.Errorf("%w: generation %d", ErrDamaged, v.Generation)
	}
	return p.Store.Put(ctx, p.Prefix+pointerName, bytes.NewReader(v.encode()),
		object.Condition{IfAbsent: tag == "", IfTag: tag, Mutable: true})
}

// replaced reports that a pointer was not written because it is not the one that was to be replaced, or that the store
// has damaged or lost it.
func replaced(err error) bool {
	var exists *object.ExistsError
	return errors.Is(err, object.ErrChanged) || errors.Is(err, object.ErrConflict) || errors.As(err, &exists)
}

// Run names the run, for Join and Follow. It is no secret.
func (h *Hold) Run() string { return h.run }

// Holds asks the store whether this run still has the crawl. It returns nil if the store says so now, or has said so
// within the lease and does not answer now. It returns ErrFenced for good once another run has it. It returns ErrUnsure
// when the lease has passed. After an error the process stops to fetch. It takes at most a third of the lease, and does
// not outlast the lease.
func (h *Hold) Holds(ctx context.Context) error {
	began := h.place.now()
	limit := h.lease / 3
	if left := h.left(); left > 0 {
		limit = min(limit, left)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	b, err := h.place.Store.ReadAll(ctx, h.place.Prefix+pointerName, maxPointer)
	var now pointer
	if err == nil {
		now, err = parsePointer(b)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err != nil: // also if the pointer is damaged or gone: its writer, or the next claim, repairs it
	case now.Run != h.run || h.claim != "" && now.Claim != h.claim || now.Released:
		h.fenced = true
	case h.confirmed.Before(began):
		h.confirmed = began
	}
	if lost := h.state(); lost != nil && err != nil && !h.fenced {
		return fmt.Errorf("%w: %w", lost, err)
	} else if lost != nil {
		return lost
	}
	return nil
}

// Current is what Holds last found out, without a request: a worker may ask it before each fetch.
func (h *Hold) Current() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state()
}

// state is Current with the lock held.
func (h *Hold) state() error {
	where := h.place.Store.Location(h.place.Prefix)
	switch {
	case h.fenced:
		return fmt.Errorf("%s: %w", where, ErrFenced)
	case h.confirmed.IsZero():
		return fmt.Errorf("%s: %w", where, ErrUnsure)
	}
	if age := h.age(); age >= h.lease {
		return fmt.Errorf("%s: %w (for %v)", where, ErrUnsure, age.Round(time.Second))
	}
	return nil
}

// age is how long ago the store has confirmed the claim, with the lock held. The monotonic clock of some systems stands
// still while the machine sleeps. The wall clock does not.
func (h *Hold) age() time.Duration {
	now := h.place.now()
	return max(now.Sub(h.confirmed), now.Round(0).Sub(h.confirmed.Round(0)))
}

// left is what is left of the lease.
func (h *Hold) left() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.confirmed.IsZero() {
		return 0
	}
	return h.lease - h.age()
}

// Watch calls Holds at once, and then several times a lease. It returns its first error, or that of ctx. If the process
// was paused for a lease, such as by a machine that sleeps, the error is ErrUnsure.
func (h *Hold) Watch(ctx context.Context) error {
	for {
		if err := h.Holds(ctx); err != nil {
			return err
		}
		if !clock.Pause(ctx, min(h.lease/6, max(h.left(), time.Millisecond))) {
			return ctx.Err()
		}
		if err := h.Current(); err != nil {
			return err
		}
	}
}
